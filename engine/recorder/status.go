package recorder

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
)

// prefix begins the names of all metrics, behind that of format.Exposition.
const prefix = "record_"

// serveMetrics answers with a page for Prometheus.
func (r *Recorder) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = io.WriteString(w, r.page()) // who asks may have gone
}

// page is what the recorder tells of itself, in Prometheus' text format, version 0.0.4.
func (r *Recorder) page() string {
	lag := 0.0
	if oldest := r.oldestNS.Load(); oldest > 0 {
		lag = time.Duration(r.now() - oldest).Seconds()
	}
	r.mu.Lock()
	lost := maps.Clone(r.lost)
	r.mu.Unlock()
	var text format.Exposition
	for _, m := range []struct {
		name, help string
		value      float64
	}{
		{"rows_total", "Requests that are in a file.", float64(r.rows.Load())},
		{"passed_total", "Requests of no known API, which only passed.", float64(r.passed.Load())},
		{"unreached_total", "Times that a server could not be reached.", float64(r.unreached.Load())},
		{"in_flight", "Requests that are passing.", float64(r.inFlight.Load())},
		{"waiting", "Requests that have passed and wait for their turn.", float64(len(r.waiting))},
		{"lag_seconds", "Age of the oldest request that has passed and is in no file yet.", lag},
		{"memory_bytes", "What is held of requests.", float64(r.budget.used.Load())},
		{"memory_limit_bytes", "What may be held of them.", float64(r.budget.most)},
		{"file_bytes", "Size of the file that is being written.", float64(r.bytes.Load())},
	} {
		text.Value(text.Head(prefix+m.name, "", m.help), m.value)
	}
	name := text.Head(prefix+"lost_total", "", "Requests that are in no file, by reason.")
	for _, why := range slices.Sorted(maps.Keys(lost)) {
		text.Value(name, float64(lost[why]), "reason", why)
	}
	return text.String()
}

// askPatience is how long a recorder may take for its page.
const askPatience = 5 * time.Second

// Status asks the recorder at an address, its [Options].Metrics, and says for people what it tells.
func Status(address string) (string, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	client := http.Client{Timeout: askPatience}
	resp, err := client.Get(address)
	if err != nil {
		return "", fmt.Errorf("%w; is it the --metrics-addr of a recorder that runs?", err)
	}
	defer resp.Body.Close() // nothing was written, so its error does not matter
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxHeaders))
	if err != nil {
		return "", err
	}
	return words(page)
}

// words is what a page says, without its comments and what all names begin with.
func words(page []byte) (string, error) {
	var ours strings.Builder
	for line := range strings.Lines(string(page)) {
		if text, found := strings.CutPrefix(line, "fastreplay_"+prefix); found {
			ours.WriteString(format.Visible(strings.TrimSpace(text)) + "\n")
		}
	}
	if ours.Len() == 0 {
		return "", errors.New("this is no page of a recorder: give the address of its --metrics-addr")
	}
	return ours.String(), nil
}

// Missing is how many requests are in no file because the disk, or the memory for them, had no room, after the end.
func (r *Recorder) Missing() int { return r.lost[lostDisk] + r.lost[lostMemory] }

// Recorded says what is in files and what is not, after the end.
func (r *Recorder) Recorded() string {
	h := trace.Head{Lost: r.lost}
	return fmt.Sprintf("%s in %s; lost: %s", format.Many(r.rows.Load(), "row"), format.Many(r.files, "file"),
		h.LostWords())
}
