package export

import (
	"bufio"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

const target = "http://127.0.0.1:8000"

// started is when the runs of these tests began.
var started = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

// resultsDir writes results as a run does: its records, its gaps between chunks, and what change makes of its facts.
func resultsDir(t *testing.T, records []record.Record, gapsNS []int64, change func(*metrics.Summary)) string {
	t.Helper()
	dir := t.TempDir()
	w := must.Have(report.NewWriter(dir, report.WriterOptions{}))(t)
	c := collect.NewCollector([]string{target})
	for i := range records {
		w.Append(&records[i])
		c.Add(&records[i], 0)
	}
	if len(gapsNS) > 0 {
		c.AddGaps(0, gapsNS)
	}
	info := metrics.Summary{
		Requests: metrics.Requests{Planned: int64(len(records))}, Limits: metrics.DefaultLimits(),
		Run: metrics.Run{StartedAt: started, DurationS: 12.5, Pace: metrics.TraceTime, API: "completions", Model: "llama", Version: "v1"},
	}
	if change != nil {
		change(&info)
	}
	must.Have(w.Close())(t)
	must.Do(t, report.WriteHistograms(dir, c, started, started.Add(time.Minute)))
	must.Do(t, report.WriteSummary(dir, c.Summary(info, collect.Probed{})))
	return dir
}

// answered is a streamed request that succeeded.
func answered(row int64) record.Record {
	var r record.Record
	r.Clear()
	r.Row, r.RequestID, r.Target = row, "id", target
	r.PlannedNS, r.SentNS, r.WrittenNS, r.HeadersNS = row*1e7, row*1e7+1500, row*1e7+2500, row*1e7+3e6
	r.FirstTokenNS, r.FirstTextNS, r.LastTokenNS, r.DoneNS = row*1e7+4e6, row*1e7+5e6, row*1e7+9e7, row*1e7+9.1e7
	if r.FirstOutputNS = r.FirstTokenNS; row%2 == 1 { // after reasoning
		r.FirstOutputNS = row*1e7 + 6e6
	}
	r.InputTokens, r.PromptTokens, r.OutputTokens, r.CompletionTokens = 100, 101, 20, 18
	r.TokensFrom, r.Chunks, r.CachedTokens, r.Status, r.Outcome = record.TokensFromUsage, 18, 32, 200, record.OK
	return r
}

// mixed is requests of every kind, made of a seed.
func mixed(n int) []record.Record {
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([]record.Record, 0, n)
	for row := range int64(n) {
		r := answered(row)
		r.SentNS += rng.Int64N(1e6)
		r.LastTokenNS += rng.Int64N(1e9)
		r.DoneNS = r.LastTokenNS + 1000
		r.InputTokens, r.PromptTokens, r.CompletionTokens = 1+rng.Int64N(5000), 1+rng.Int64N(5000), 1+rng.Int64N(3)*rng.Int64N(100)
		switch row % 12 {
		case 0:
			r.CompletionTokens = 1 // nothing after the first token
		case 1: // not streamed
			r.FirstTokenNS, r.FirstTextNS, r.FirstOutputNS, r.Chunks = record.None, record.None, record.None, 0
		case 2: // the server counts nothing
			r.PromptTokens, r.CachedTokens, r.TokensFrom = record.None, record.None, record.TokensFromChunks
		case 3: // the trace does not know, nor does the server
			r.InputTokens, r.PromptTokens, r.CompletionTokens, r.TokensFrom = record.None, record.None, record.None, record.TokensUnknown
		case 4: // no chunk had text
			r.FirstTextNS = record.None
		case 5:
			r.Outcome, r.Status, r.Error = record.HTTPError, 503, "too busy <&>"
			r.FirstTokenNS, r.FirstTextNS, r.LastTokenNS, r.PromptTokens = record.None, record.None, record.None, record.None
		case 6: // broken off after the first token
			r.Outcome, r.Error, r.DoneNS, r.LastTokenNS = record.Reset, "connection reset by the server", record.None, r.FirstTokenNS
		case 7:
			r.Outcome, r.Error, r.SentNS, r.WrittenNS, r.HeadersNS = record.ConnectError, "refused", record.None, record.None, record.None
			r.FirstTokenNS, r.FirstTextNS, r.LastTokenNS, r.DoneNS = record.None, record.None, record.None, record.None
		case 8:
			r.Outcome, r.Error, r.LastTokenNS, r.DoneNS = record.Cancelled, "the run was stopped", record.None, record.None
		case 9:
			if r.Session, r.Turn = row%24, 1+row/24; r.Session == 21 {
				r.SessionName = "session " + strconv.FormatInt(r.Session, 10)
			}
		case 10:
			r.Clear()
			r.Row, r.PlannedNS = row, row*1e7 // never sent
		}
		all = append(all, r)
	}
	rng.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] }) // as they complete
	return all
}

// readObjects reads lines of JSON.
func readObjects(t *testing.T, path string) (all []object) {
	t.Helper()
	f := must.Have(os.Open(path))(t)
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var o object
		must.Do(t, json.Unmarshal(in.Bytes(), &o), "%s in %s", path, in.Bytes())
		all = append(all, o)
	}
	return all
}

func readObject(t *testing.T, path string) (o object) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	must.Do(t, err, path)
	return o
}

// sent are the lines of requests.jsonl but for those of requests that never left.
func sent(t *testing.T, dir string) (all []object) {
	t.Helper()
	for _, l := range readObjects(t, filepath.Join(dir, "requests.jsonl")) {
		if l["outcome"] != "not_sent" {
			all = append(all, l)
		}
	}
	return all
}

// write exports and fails the test on error.
func write(t *testing.T, dir, name string) {
	t.Helper()
	must.Have(Write(dir, name, Paths(dir, []string{name}), nil))(t)
}

// near reports whether two numbers agree but for the last bits.
func near(got, want float64) bool {
	return got == want || math.Abs(got-want) <= 1e-9*max(math.Abs(got), math.Abs(want))
}

// sameNumbers compares numbers by name; absent ones are not in want.
func sameNumbers(t *testing.T, what string, got object, want map[string]float64) {
	t.Helper()
	for key, w := range want {
		if g, ok := got[key].(float64); !ok || !near(g, w) {
			t.Errorf("%s: %s is %v, want %v", what, key, got[key], w)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: %s is %v, want nothing", what, key, got[key])
		}
	}
}
