package report

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// writeRecords writes requests.jsonl into dir.
func writeRecords(t *testing.T, dir string, o WriterOptions, records []record.Record) {
	t.Helper()
	w := must.Have(NewWriter(dir, o))(t)
	for i := range records {
		w.Append(&records[i])
	}
	if lost, err := w.Close(); lost > 0 || err != nil {
		t.Fatal(lost, err)
	}
}

// ran returns n requests, to so many targets in turn, of which every sixth failed and every ninth was answered in one
// chunk.
func ran(n, targets int) []record.Record {
	chance := rand.New(rand.NewPCG(1, 2))
	all := make([]record.Record, n)
	for i := range all {
		r := &all[i]
		r.Clear()
		r.Row, r.PlannedNS, r.Target = int64(i), int64(i)*1e6, fmt.Sprintf("http://10.0.%d.%d", i%targets/250, i%targets%250)
		r.Endpoint, r.Instance = strings.TrimPrefix(r.Target, "http://"), fmt.Sprint("pod-", i%3)
		r.SentNS = r.PlannedNS + chance.Int64N(1e5)
		r.FirstTokenNS = r.SentNS + int64(math.Exp(chance.NormFloat64()+18))
		r.LastTokenNS = r.FirstTokenNS + int64(math.Exp(chance.NormFloat64()+19))
		r.Chunks, r.CompletionTokens, r.TokensFrom, r.Outcome = 9, 2+chance.Int64N(90), record.TokensFromUsage, record.OK
		switch {
		case i%6 == 0:
			r.Outcome, r.Error = record.Reset, "connection reset"
		case i%9 == 0:
			r.Chunks, r.LastTokenNS = 1, r.FirstTokenNS
		}
	}
	return all
}

// TestPercentilesAreTheRecords: the summary has what a reader finds by sorting a column of requests.jsonl, as
// quantile_disc does in DuckDB, over all and by part.
func TestPercentilesAreTheRecords(t *testing.T) {
	dir := t.TempDir()
	writeRecords(t, dir, WriterOptions{}, ran(4001, 3))
	s := must.Have(Load(dir))(t)
	text := must.Have(os.ReadFile(filepath.Join(dir, RequestsName)))(t)
	columns := map[string][]float64{}
	for line := range strings.Lines(string(text)) {
		var row map[string]any
		must.Do(t, json.Unmarshal([]byte(line), &row))
		add := func(column string, unit float64) {
			if v, ok := row[column].(float64); ok {
				for _, part := range []string{"", row["target"].(string), row["instance"].(string)} {
					columns[part+column] = append(columns[part+column], v/unit)
				}
			}
		}
		add("drift_ns", 1e3)
		if row["outcome"] == "ok" {
			add("ttft_ms", 1)
			add("tpot_ms", 1)
			add("e2e_ms", 1)
		}
	}
	check := func(column string, got *stats.Percentiles) {
		t.Helper()
		values := columns[column]
		slices.Sort(values)
		disc := func(q float64) float64 { return values[int(math.Ceil(q*float64(len(values))-1e-9))-1] }
		want := stats.Percentiles{P50: disc(0.5), P75: disc(0.75), P90: disc(0.9), P95: disc(0.95), P99: disc(0.99), P999: disc(0.999), Max: disc(1), Mean: got.Mean, Count: got.Count}
		expect.Equal(t, *got, want, column)
	}
	check("drift_ns", s.DriftUS)
	check("ttft_ms", s.TTFTMS)
	check("tpot_ms", s.TPOTMS)
	check("e2e_ms", s.E2EMS)
	for _, part := range s.Targets {
		check(part.URL+"drift_ns", part.DriftUS)
		check(part.URL+"tpot_ms", part.TPOTMS)
	}
	for _, part := range s.Instances.Parts {
		check(part.Name+"ttft_ms", part.TTFTMS)
		check(part.Name+"e2e_ms", part.E2EMS)
	}
}

// TestReportOfManyTargets: ten times the targets, each with a time of failures, take about ten times the work, not a
// hundred times.
func TestReportOfManyTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: 20,000 targets take 30 s under the race detector, and one goroutine reads them")
	}
	cpu := func(targets int) func() float64 {
		records := ran(8*targets, targets)
		for i := range records {
			if i%2 == 0 {
				records[i].Outcome = record.Reset
			}
		}
		dir := t.TempDir()
		writeRecords(t, dir, WriterOptions{}, records)
		return func() float64 {
			var before, after unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
			s, err := Load(dir, slos(t, "ttft:100")...)
			if err != nil || len(s.Targets) != targets || len(s.Outages) != targets/2 {
				t.Fatal(err, "or another number of targets or outages")
			}
			must.Do(t, Print(new(strings.Builder), s, PrintOptions{}))
			_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
			return float64(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
		}
	}
	few, many := cpu(400), cpu(4000)
	for range 10 { // beside other programs caches are cold, so one try in which it shows is enough
		if most := many() / few(); most <= 35 {
			return
		}
	}
	t.Error("the work grows faster than the targets")
}
