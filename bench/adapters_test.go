package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
)

// adapterLog is what the mock's log says of a request, with --log-all.
type adapterLog struct {
	served
	Model    string            `json:"model"`
	Priority int               `json:"priority"`
	Headers  map[string]string `json:"headers"`
	Body     struct {
		Model    string
		Priority int
	}
	Begin  int64 `json:"begin_ns"`
	LoadNS int64 `json:"load_ns"`
}

// adapterRow is what a row of the trace says.
type adapterRow struct {
	At       int    `json:"timestamp"`
	Input    int    `json:"input_length"`
	Output   int    `json:"output_length"`
	IDs      []int  `json:"hash_ids"`
	Tenant   string `json:"tenant,omitempty"`
	Model    string `json:"model,omitempty"`
	Class    string `json:"class,omitempty"`
	Priority int    `json:"priority,omitempty"`
}

// adapterWorld replays rows of 16 tokens a block at a mock with adapters, and returns its log.
func adapterWorld(t *testing.T, rows []adapterRow, mockArgs, args []string) (*results, map[string]adapterLog) {
	t.Helper()
	var text strings.Builder
	for _, row := range rows {
		line := must.Have(json.Marshal(row))(t)
		text.Write(append(line, '\n'))
	}
	path := newFile(t, "adapters.jsonl", text.String())
	m := startMock(t, append(mockArgs, "--log-all", "--spread", "0")...)
	r := run(t, append([]string{"--trace", path, "--block-tokens", "16", "--url", m.url, "--scrape-interval", "100ms"}, args...)...)
	must.Equal(t, r.summary.Owners != nil, true, "%s", r.stderr)
	return r, adapterLogOf(t, m)
}

// adapterLogOf stops a mock and returns its log by the ids of requests.
func adapterLogOf(t *testing.T, m *mockServer) map[string]adapterLog {
	t.Helper()
	m.stop(t)
	log := map[string]adapterLog{}
	for _, l := range readLines[adapterLog](t, m.log) {
		log[l.ID] = l
	}
	return log
}

// checkLoads simulates the adapters' places by the instants of the log alone: a request whose adapter is not there
// loads it in place of the one that was used longest ago and that nobody uses.
func checkLoads(t *testing.T, log map[string]adapterLog, places int, loadNS int64) (loads int) {
	t.Helper()
	type event struct {
		at   int64
		ends bool
		of   adapterLog
	}
	var all []event
	for _, l := range log {
		if strings.HasPrefix(l.Model, "lora-") {
			all = append(all, event{l.Begin, false, l}, event{l.Done, true, l})
		}
	}
	slices.SortFunc(all, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), -cmp.Compare(fmt.Sprint(a.ends), fmt.Sprint(b.ends)))
	})
	used, ready, users := map[string]int64{}, map[string]int64{}, map[string]int{}
	for i, e := range all {
		model := e.of.Model
		if e.ends {
			users[model]--
			continue
		}
		if _, there := used[model]; !there {
			loads++
			if len(used) == places {
				idle := ""
				for name := range used {
					if users[name] == 0 && (idle == "" || used[name] < used[idle]) {
						idle = name
					}
				}
				must.Equal(t, idle != "", true, "%s begins, and none of %v is idle", model, users)
				delete(used, idle)
			}
			ready[model] = e.at + loadNS
		}
		users[model]++
		used[model] = int64(i)
		expect.Equal(t, e.of.LoadNS, max(0, ready[model]-e.at), "loading of %s", e.of.ID)
	}
	return loads
}

// TestAdapters: a server with more adapters than places, two tiers and priorities. Its own log agrees with each record:
// headers, model, priority, hits by tier, the ideal hits of each adapter's own blocks, and what loading it took.
func TestAdapters(t *testing.T) {
	t.Parallel()
	var rows []adapterRow
	for i := range 90 {
		row := adapterRow{At: i * 20, Input: 70, Output: 2, IDs: []int{1, 2, 3, 4, 100 + i}, Priority: i%3 - 1}
		if i%5 > 0 {
			row.Model = fmt.Sprint("lora-", 1+(i*i/3+i)%4)
		}
		if i%7 > 0 {
			row.Tenant, row.Class = fmt.Sprint("t", i%2), []string{"gold", "free"}[i%2]
		}
		rows = append(rows, row)
	}
	const load = 30e6
	r, log := adapterWorld(t, rows,
		[]string{"--adapters", "4", "--adapter-slots", "2", "--adapter-load", "30ms", "--priorities", "--cache-tokens", "320", "--host-cache-tokens", "3M"},
		[]string{"--header", "x-objective: {class}", "--header", "x-fairness: {tenant}", "--concurrency", "1", "--model", "mock", "--api", "chat", "--cold", "off"})
	seen := map[string]map[string]bool{}
	first := map[string]float64{}
	for i, rec := range recordsOf(t, r.dir) {
		row, l := rows[rec.Row], log[rec.RequestID]
		model := cmp.Or(row.Model, "mock")
		expect.Equal(t, [3]string{l.Model, l.Body.Model, rec.Model}, [3]string{model, model, row.Model}, "row", rec.Row)
		expect.Equal(t, [3]string{fmt.Sprint(l.Priority), fmt.Sprint(l.Body.Priority), cmp.Or(rec.Priority, "0")},
			[3]string{fmt.Sprint(row.Priority), fmt.Sprint(row.Priority), fmt.Sprint(row.Priority)}, "row", rec.Row)
		expect.Equal(t, [2]string{l.Headers["X-Objective"], l.Headers["X-Fairness"]}, [2]string{row.Class, row.Tenant}, "row", rec.Row)
		expect.Equal(t, [2]int64{rec.CachedDeviceTokens, rec.CachedExternalTokens}, [2]int64{l.Cached - l.Host, l.Host}, "row", rec.Row)
		if seen[model] == nil {
			seen[model] = map[string]bool{}
			first[row.Model] = float64(rec.FirstTokenNS-rec.SentNS) / 1e6
		}
		hits := int64(0)
		for k := range row.IDs {
			key := fmt.Sprint(row.IDs[:k+1])
			if seen[model][key] {
				hits += 16
			}
			seen[model][key] = true
		}
		expect.Equal(t, rec.ExpectedCachedTokens, hits, "ideal hits of record", i)
		expect.Equal(t, rec.CachedTokens, hits, "hits of record", i)
	}
	if loads := checkLoads(t, log, 2, load); loads < 20 {
		t.Errorf("%d loads: the world is too small", loads)
	}
	parts := r.summary.Owners.Models.Parts
	must.Equal(t, len(parts), 4, "models")
	for _, part := range parts {
		expect.Near(t, *part.FirstTTFTMS, first[part.Name], 1e-6, part.Name)
		expect.Equal(t, *part.FirstTTFTMS >= load/1e6, true, "%s was loaded first: %v", part.Name, *part.FirstTTFTMS)
		expect.Equal(t, *part.LongestWaitMS, part.TTFTMS.Max, part.Name)
		expect.Equal(t, *part.ExpectedHitRatio > 0, true, part.Name)
	}
	ran := r.summary.Servers.Targets[0].Adapters
	expect.Equal(t, len(ran) > 0, true, "adapters that ran by the server's page: %v", ran)
	for _, name := range ran {
		expect.Equal(t, strings.HasPrefix(name, "lora-"), true, name)
	}
}

// TestStarvedAdapter: one request for an adapter that has no place waits until one of those that are always in use is
// idle, while others begin; the results have how long. A name that no server lists is found before the start.
func TestStarvedAdapter(t *testing.T) {
	t.Parallel()
	var rows []adapterRow
	for i := range 150 {
		rows = append(rows, adapterRow{At: i * 10, Input: 20, Output: 6, IDs: []int{i, 1000 + i}, Model: fmt.Sprint("lora-", 1+i%2)})
	}
	rows[20].Model = "lora-3"
	r, log := adapterWorld(t, rows, []string{"--adapters", "3", "--adapter-slots", "2", "--adapter-load", "20ms", "--itl", "10ms"}, nil)
	checkLoads(t, log, 2, 20e6)
	parts := r.summary.Owners.Models.Parts
	must.Equal(t, len(parts), 3, "models")
	at20 := func(rec record.Record) bool { return rec.Row == 20 }
	records := recordsOf(t, r.dir)
	starved := records[slices.IndexFunc(records, at20)]
	waited := float64(starved.FirstTokenNS-starved.SentNS) / 1e6
	expect.Near(t, *parts[2].LongestWaitMS, waited, 1e-6, parts[2].Name)
	if l := log[starved.RequestID]; float64(l.First-l.Arrived)/1e6 > waited {
		t.Errorf("%s waited %v ms, %v ms by the server's log", parts[2].Name, waited, float64(l.First-l.Arrived)/1e6)
	}
	rows[30].Model = "lora-9"
	r, _ = adapterWorld(t, rows[:60], []string{"--adapters", "3"}, nil)
	expect.Contains(t, r.stderr, `1 request (the first is row 30, from 0) for the model "lora-9", which`)
	expect.Equal(t, r.summary.Requests.Failed, int64(1), "failed")
}
