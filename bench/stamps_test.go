//go:build linux

package bench

import (
	"encoding/csv"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// stamped is what a line has beside the rest where the kernel stamps.
type stamped struct {
	ID       string `json:"request_id"`
	Departed *int64 `json:"departed_ns"`
	Acked    *int64 `json:"acked_ns"`
}

// chunkInstants is a line of the chunk log.
type chunkInstants struct{ instant, read, sent int64 }

// clocksAgree is how far instants of client and server may seem out of order, ns. Each converts the kernel's wall-clock
// stamps by readings of its own, bracketed to ±50 ns on an idle machine. The mock reads both of its clocks one after
// the other.
const clocksAgree = 2_000

// needStamps skips where the kernel does not stamp.
func needStamps(t *testing.T) {
	t.Helper()
	if err := wire.ProbeStamps(wire.Stamps{Receive: true, Send: true}); err != nil {
		t.Skip(err)
	}
}

// TestKernelTimestamps joins what client and server have of each request: it is sent, departs, arrives and is
// acknowledged. Each chunk arrives after it was sent and before it was read.
func TestKernelTimestamps(t *testing.T) {
	needStamps(t)
	load := steady(t, 300, 400, 12)
	for _, c := range []struct {
		name       string
		mock, args []string
	}{
		{"http", nil, nil},
		{"https", []string{"--tls-self-signed"}, []string{"--insecure"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := startMock(t, append(c.mock, "--quirk", "stamp")...)
			chunks := filepath.Join(t.TempDir(), "chunks.csv")
			r := run(t, append(c.args, "--trace", load, "--url", m.url, "--kernel-timestamps", "sent", "--chunk-log", chunks)...)
			r.prove(t)
			log := m.stop(t)
			r.join(t, log)
			r.only(t, "ok")
			k := r.summary.Client.Stamps
			if k == nil || !k.Received || !k.Sent || k.Reads == 0 {
				t.Fatalf("%+v", k)
			}
			if k.ClockSteps > 0 {
				t.Skip("this machine's clock was set meanwhile")
			}
			if k.Unstamped+k.Dropped > k.Reads/10 {
				t.Errorf("%d reads without a stamp, %d stamps dropped, %d reads with one", k.Unstamped, k.Dropped, k.Reads)
			}
			r.proveSending(t, log)
			r.proveChunks(t, chunks)
		})
	}
}

func (r *results) proveSending(t *testing.T, log map[string][]served) {
	t.Helper()
	origin := r.summary.Run.MonotonicStartNS
	lines := map[string]*line{}
	for i := range r.lines {
		lines[r.lines[i].ID] = &r.lines[i]
	}
	var left, upload []float64
	for _, s := range readLines[stamped](t, requestsFile(r.dir)) {
		l := lines[s.ID]
		arrival := log[s.ID][0].Arrival - origin
		if s.Departed != nil {
			left = append(left, float64(*s.Departed-l.Sent)/1e3)
			if *s.Departed < l.Sent-clocksAgree || arrival < *s.Departed-clocksAgree {
				t.Errorf("row %d: sent %d, departed %d, arrived %d", l.Row, l.Sent, *s.Departed, arrival)
			}
		}
		if s.Acked != nil {
			upload = append(upload, float64(*s.Acked-l.Sent)/1e3)
			if *s.Acked < l.Sent-clocksAgree || s.Departed != nil && *s.Acked < *s.Departed-clocksAgree {
				t.Errorf("row %d: sent %d, departed %v, acknowledged %d", l.Row, l.Sent, s.Departed, *s.Acked)
			}
		}
	}
	logQuantiles(t, "departed after sent, µs", left)
	logQuantiles(t, "acknowledged after sent, µs", upload)
	for _, half := range []int{len(left), len(upload)} {
		if 2*half < len(r.lines) {
			t.Errorf("%d departures and %d acknowledgements of %d requests are known", len(left), len(upload), len(r.lines))
		}
	}
	if w := r.summary.WireDriftUS; w == nil || math.IsNaN(w.P50) || r.summary.UploadMS == nil {
		t.Errorf("wire drift %+v, upload %+v", w, r.summary.UploadMS)
	}
}

// proveChunks: every chunk of every row is in the log, sent, then received by the kernel, then read.
func (r *results) proveChunks(t *testing.T, path string) {
	t.Helper()
	rows := readChunks(t, path)
	origin := r.summary.Run.MonotonicStartNS
	var kernel, user []float64
	for i := range r.lines {
		l := &r.lines[i]
		list := rows[l.Row]
		if int64(len(list)) != l.Chunks || list[0].instant != l.FirstToken || list[len(list)-1].instant != l.LastToken {
			t.Fatalf("row %d: %+v in the log of chunks; the record has %d from %d to %d", l.Row, list, l.Chunks, l.FirstToken, l.LastToken)
		}
		for k, c := range list {
			if c.sent-origin > c.instant+clocksAgree || c.instant > c.read || k > 0 && c.instant < list[k-1].instant {
				t.Errorf("row %d, chunk %d: sent %d, received %d, read %d", l.Row, k, c.sent-origin, c.instant, c.read)
			}
		}
		kernel = append(kernel, float64(list[0].instant-(list[0].sent-origin))/1e3)
		user = append(user, float64(list[0].read-(list[0].sent-origin))/1e3)
	}
	logQuantiles(t, "first token by the kernel after it was sent, µs", kernel)
	logQuantiles(t, "first token by the reader after it was sent, µs", user)
}

func readChunks(t *testing.T, path string) map[int64][]chunkInstants {
	t.Helper()
	text := readFile(t, path)
	table, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || len(table) == 0 || strings.Join(table[0], ",") != "row,chunk,instant_ns,read_ns,sent_ns" {
		t.Fatalf("%v: %v", table[:min(1, len(table))], err)
	}
	rows := map[int64][]chunkInstants{}
	for _, cells := range table[1:] {
		var v [5]int64
		for i, cell := range cells {
			if v[i], err = strconv.ParseInt(cell, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		must.Equal(t, int64(len(rows[v[0]])), v[1], "row %d: chunks before the next one", v[0])
		rows[v[0]] = append(rows[v[0]], chunkInstants{v[2], v[3], v[4]})
	}
	return rows
}

// TestKernelTimestampsRefused: where the kernel cannot show that it stamps, auto says so and goes on, on does not
// start.
func TestKernelTimestampsRefused(t *testing.T) {
	t.Parallel()
	asRoot(t, "unshare")
	prefix := []string{"unshare", "--net", "--"} // a network without even loopback
	command(t, with(prefix, "true")...)
	for mode, want := range map[string]string{
		"on":   "--kernel-timestamps on: no loopback to try it on",
		"sent": "--kernel-timestamps sent: no loopback to try it on",
		"auto": "no kernel timestamps (no loopback to try it on",
	} {
		r := startReplayIn(t, prefix, "--trace", steady(t, 10, 100, 2), "--url", "127.0.0.1:9", "--kernel-timestamps", mode)
		r.isRefused(t, want) // auto fails later, at the server
	}
}
