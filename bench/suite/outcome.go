package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// line is what the suite reads of a line of requests.jsonl; rivals write the same keys.
type line struct {
	RequestID   string `json:"request_id"`
	PlannedNS   int64  `json:"planned_ns"`
	SentNS      *int64 `json:"sent_ns"`
	DriftNS     *int64 `json:"drift_ns"`
	WrittenNS   *int64 `json:"written_ns"`
	LastTokenNS *int64 `json:"last_token_ns"`
	Chunks      int64  `json:"chunks"`
	Outcome     string `json:"outcome"`

	stamped []chunk // a rival's chunks that the server stamped
}

// summary is what the suite reads of summary.json; rivals write the run and requests parts.
type summary struct {
	Run struct {
		MonotonicStartNS int64   `json:"monotonic_start_ns"`
		DurationS        float64 `json:"duration_s"`
	} `json:"run"`
	Workload struct {
		Fingerprint string `json:"fingerprint"`
	} `json:"workload"`
	Requests struct {
		Planned int64 `json:"planned"`
		OK      int64 `json:"ok"`
	} `json:"requests"`
	Throughput struct {
		RequestsPerS float64 `json:"requests_per_s"`
	} `json:"throughput"`
	Tokens struct {
		Completion int64 `json:"completion"`
	} `json:"tokens"`
	BuildAhead *struct {
		WindowBytes int64    `json:"window_bytes"`
		LeastLeadMS *float64 `json:"least_lead_ms"`
		Late        int64    `json:"late"`
	} `json:"build_ahead"`
	Client struct {
		CPUS        float64 `json:"cpu_s"`
		MaxRSSBytes int64   `json:"max_rss_bytes"`
		GCCycles    int64   `json:"gc_cycles"`
		LoadS       float64 `json:"load_s"`
		PrebuildS   float64 `json:"prebuild_s"`
		WireBytes   int64   `json:"wire_bytes"`
		LaneProcess bool    `json:"lane_process"`
		ReceiveLag  *struct {
			P50 float64 `json:"p50"`
			P99 float64 `json:"p99"`
		} `json:"receive_lag_us"`
		Stamps *struct {
			Reads     int64 `json:"reads"`
			Unstamped int64 `json:"unstamped_reads"`
		} `json:"kernel_timestamps"`
	} `json:"client"`
}

// outcome is a finished replay.
type outcome struct {
	summary summary
	lines   []line
	used    usage
}

// replay runs fastreplay against url behind a prefix. INVALID is a result too.
func (l *lab) replay(prefix []string, url string, args ...string) (*outcome, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	dir = filepath.Join(dir, "results")
	all := append(append([]string{}, prefix...), l.fastreplay, "--url", url, "--output", dir, "--model", "mock", "--no-probe", "--cold", "off")
	_, used, err := l.finish([]int{1}, append(all, args...)...)
	if err != nil {
		return nil, err
	}
	return readOutcome(dir, used)
}

func readOutcome(dir string, used usage) (*outcome, error) {
	o := &outcome{used: used}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &o.summary); err != nil {
		return nil, fmt.Errorf("summary.json: %w", err)
	}
	o.lines, err = readLines[line](filepath.Join(dir, "requests.jsonl"))
	return o, err
}

// readLines reads a file of JSON lines.
func readLines[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []T
	for d := json.NewDecoder(bufio.NewReaderSize(f, 1<<20)); d.More(); {
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(out)+1, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// drifts are the drifts of all requests that were sent, ascending.
func (o *outcome) drifts() []int64 {
	var out []int64
	for i := range o.lines {
		if d := o.lines[i].DriftNS; d != nil {
			out = append(out, *d)
		}
	}
	slices.Sort(out)
	return out
}

// putPercentiles notes p50, and p99 and p99.9 where at least one of the ascending values lies above.
func (r *round) putPercentiles(who, of string, sorted []int64) {
	r.put(who, of+" p50", nanoseconds, percentile(sorted, 0.5))
	if len(sorted) > 100 {
		r.put(who, of+" p99", nanoseconds, percentile(sorted, 0.99))
	}
	if len(sorted) > 1000 {
		r.put(who, of+" p99.9", nanoseconds, percentile(sorted, 0.999))
	}
}

// putDrift notes the drift and, where there are any, failed requests.
func (r *round) putDrift(who string, o *outcome) {
	r.putPercentiles(who, "drift", o.drifts())
	if failed := o.summary.Requests.Planned - o.summary.Requests.OK; failed > 0 {
		r.put(who, "failed requests", count, float64(failed))
	}
}

// putClient notes what fastreplay itself used.
func (r *round) putClient(who string, o *outcome) {
	c := &o.summary.Client
	if n := o.summary.Requests.OK; n > 0 {
		r.put(who, "CPU time a request", nanoseconds, c.CPUS*1e9/float64(n))
	}
	r.put(who, "collections", count, float64(c.GCCycles))
}

// putReceiveLag notes how far the client's reads were behind the kernel, where the kernel stamped.
func (r *round) putReceiveLag(who string, o *outcome) {
	if lag := o.summary.Client.ReceiveLag; lag != nil {
		r.put(who, "receive lag p50", nanoseconds, lag.P50*µs)
		r.put(who, "receive lag p99", nanoseconds, lag.P99*µs)
	}
}
