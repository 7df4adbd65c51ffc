package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// outcome is a finished replay; rivals write the same files, with the run and requests parts of the summary.
type outcome struct {
	metrics.Summary
	lines []record.Record
}

// replay runs fastreplay against url behind a prefix. INVALID is a result too.
func (l *lab) replay(prefix []string, url string, args ...string) (*outcome, error) {
	return l.outcome(func(dir string) error {
		ours := []string{l.fastreplay, "--url", url, "--output", dir, "--model", "mock", "--no-probe", "--cold", "off"}
		_, used, err := l.finish(slices.Concat(prefix, ours, args)...)
		if used != nil && used.ExitCode() == 1 {
			return nil
		}
		return err
	})
}

// outcome lets run write results to a new directory, and reads them.
func (l *lab) outcome(run func(dir string) error) (*outcome, error) {
	parent, err := os.MkdirTemp(l.work, "run-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "results")
	if err := run(dir); err != nil {
		return nil, err
	}
	o := &outcome{}
	text, err := os.ReadFile(filepath.Join(dir, report.SummaryName))
	if err == nil {
		err = json.Unmarshal(text, &o.Summary)
	}
	if err == nil {
		err = report.EachRecord(dir, func(r *record.Record) { o.lines = append(o.lines, *r) })
	}
	return o, err
}

// drifts are the drifts of all requests that were sent, ascending.
func (o *outcome) drifts() []int64 {
	var out []int64
	for i := range o.lines {
		d := o.lines[i].DriftNS()
		if d != record.None {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out
}

// putPercentiles notes p50, and p99 and p99.9 where at least one of the ascending values lies above.
func (r *round) putPercentiles(who, of string, sorted []int64) {
	r.put(who, of+"-p50-ns", percentile(sorted, 0.5))
	if len(sorted) > 100 {
		r.put(who, of+"-p99-ns", percentile(sorted, 0.99))
	}
	if len(sorted) > 1000 {
		r.put(who, of+"-p99.9-ns", percentile(sorted, 0.999))
	}
}

// putDrift notes the drift and, where there are any, failed requests.
func (r *round) putDrift(who string, o *outcome) {
	r.putPercentiles(who, "drift", o.drifts())
	failed := o.Requests.Planned - o.Requests.OK
	if failed > 0 {
		r.put(who, "failed", float64(failed))
	}
}

// putClient notes what fastreplay itself used.
func (r *round) putClient(who string, o *outcome) {
	n := o.Requests.OK
	if n > 0 {
		r.put(who, "cpu-a-request-ns", o.Client.CPUS*1e9/float64(n))
	}
	r.put(who, "collections", float64(o.Client.GCCycles))
}

// chunkHead is the head of a log of chunks, fastreplay's and the rivals'.
const chunkHead = "row,chunk,instant_ns,read_ns,sent_ns"

// chunk is a line of the log: instants of the client since the run's start, and the server's stamp of the chunk. The
// stamp is CLOCK_MONOTONIC just before the write.
type chunk struct{ row, number, instantNS, readNS, sentNS int64 }

// readChunks reads a log of chunks, in which each row's stand together and in order.
func readChunks(in io.Reader) ([]chunk, error) {
	lines := bufio.NewScanner(in)
	if lines.Scan(); lines.Text() != chunkHead {
		return nil, fmt.Errorf("the chunk log begins with %q; want %s", lines.Text(), chunkHead)
	}
	var all []chunk
	for lines.Scan() {
		var c chunk
		_, err := fmt.Sscanf(lines.Text(), "%d,%d,%d,%d,%d", &c.row, &c.number, &c.instantNS, &c.readNS, &c.sentNS)
		if err != nil {
			return nil, fmt.Errorf("chunk log, line %d: %w", len(all)+2, err)
		}
		if c.number != 0 && (len(all) == 0 || c.row != all[len(all)-1].row || c.number != all[len(all)-1].number+1) {
			return nil, fmt.Errorf(
				"chunk log, line %d: chunk %d of row %d does not follow the one before it",
				len(all)+2,
				c.number,
				c.row,
			)
		}
		all = append(all, c)
	}
	return all, lines.Err()
}

// errorsOf compares the client's instant of a chunk with the server's stamp. It returns the first tokens' differences
// and the absolute ones of the gaps, ascending, ns. startNS is the run's start by the server's clock.
func errorsOf(chunks []chunk, startNS int64, instant func(chunk) int64) (first, gaps []int64) {
	for i, c := range chunks {
		if c.number == 0 {
			first = append(first, instant(c)+startNS-c.sentNS)
			continue
		}
		off := instant(c) - instant(chunks[i-1]) - (c.sentNS - chunks[i-1].sentNS)
		gaps = append(gaps, max(off, -off))
	}
	slices.Sort(first)
	slices.Sort(gaps)
	return first, gaps
}
