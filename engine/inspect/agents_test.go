package inspect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/sched"
)

// rawAgent is a row of an agentic file as the oracle sees it; times in ms. took and cached are -1 where the file has
// none.
type rawAgent struct {
	job, agent, depth   int
	at, took            int
	in, out, cached     int
	ids                 []int
	before, spawn, join int // rows, -1 = none
}

func randomAgents(chance *rand.Rand, n int) []rawAgent {
	rows := make([]rawAgent, n)
	latest := map[int]int{} // row, by agent
	for i := range rows {
		agent := chance.IntN(9) // three of each of three jobs, the first of which is its main one
		r := rawAgent{job: agent / 3, agent: agent, depth: min(1, agent%3), at: 40 * i, took: chance.IntN(120), out: 1 + chance.IntN(9), cached: -1, before: -1, spawn: -1, join: -1}
		main, known := latest[r.job*3]
		last, begun := latest[agent]
		switch {
		case begun:
			r.before = last
			was := rows[last].ids
			r.ids = slices.Clone(was[:len(was)-chance.IntN(2)*chance.IntN(len(was))])
		case agent%3 > 0 && known:
			r.spawn = main
			r.ids = slices.Clone(rows[main].ids[:1])
		}
		if sub, ok := latest[r.job*3+1]; agent%3 == 0 && ok && chance.IntN(2) == 0 {
			r.join = sub
		}
		for range 1 + chance.IntN(4) {
			r.ids = append(r.ids, 1+chance.IntN(6))
		}
		if r.in = 64*len(r.ids) - chance.IntN(64); chance.IntN(3) > 0 {
			r.cached = chance.IntN(r.in)
		}
		if chance.IntN(9) == 0 {
			r.took = -1
		}
		rows[i], latest[agent] = r, i
	}
	return rows
}

func agenticFile(rows []rawAgent) string {
	var b strings.Builder
	b.WriteString(`{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"test","digest":"1"}}` + "\n")
	for i, r := range rows {
		dependencies := []map[string]any{}
		for _, d := range []struct {
			on       int
			relation string
		}{{r.before, "sequence"}, {r.spawn, "spawn"}, {r.join, "join"}} {
			if d.on >= 0 {
				dependencies = append(dependencies, map[string]any{"request_id": fmt.Sprint(d.on), "trigger": "completion", "delay_ms": 0, "relation": d.relation})
			}
		}
		row := map[string]any{
			"request_id": fmt.Sprint(i), "play_id": fmt.Sprint(r.job), "session_id": fmt.Sprint(r.agent), "model": "m", "input_length": r.in, "output_length": r.out,
			"hash_ids": r.ids, "not_before_ms": r.at, "timestamp": r.at, "depth": r.depth, "dependencies": dependencies,
		}
		if r.took >= 0 {
			row["recorded_api_time_ms"] = r.took
		}
		if r.cached >= 0 {
			row["cached_tokens"] = r.cached
		}
		line, _ := json.Marshal(row)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// TestAgents compares with what the raw rows say, millisecond by millisecond and row by row.
func TestAgents(t *testing.T) {
	assumed := sched.AssumedLatency{TTFT: 7 * time.Millisecond, TPOT: 3 * time.Millisecond}
	for seed := range uint64(8) {
		rows := randomAgents(rand.New(rand.NewPCG(seed, 9)), 60)
		tr := must.Have(trace.Read(strings.NewReader(agenticFile(rows)), "a.jsonl", trace.Options{}))(t)
		report := Analyse(tr, Options{Assumed: assumed})
		got := report.Agents
		end := func(r *rawAgent) int {
			if r.took < 0 {
				return r.at + 7 + 3*(r.out-1)
			}
			return r.at + r.took
		}
		var spans, idles, tools, grown, atOnce, took []int64
		within, tokens, cached, cachedOf, compacted, follow, idleSum, spanSum := 0, 0, 0, 0, 0, 0, int64(0), int64(0)
		for job := range 3 {
			first, last, idle, most := -1, 0, 0, 0
			for i := range rows {
				if r := &rows[i]; r.job == job {
					if first < 0 {
						first = r.at
					}
					last = max(last, end(r))
				}
			}
			if first < 0 {
				continue
			}
			for ms := first; ms <= last; ms++ {
				busy, closed := map[int]bool{}, map[int]bool{} // in flight, and with both ends
				for i := range rows {
					if r := &rows[i]; r.job == job && r.at <= ms && ms <= end(r) {
						closed[r.agent], busy[r.agent] = true, busy[r.agent] || ms < end(r)
					}
				}
				if most = max(most, len(closed)); ms < last && !slices.Contains(slices.Collect(maps.Values(busy)), true) {
					idle++
				}
			}
			spans, idles, atOnce = append(spans, int64(last-first)), append(idles, int64(idle)), append(atOnce, int64(most))
			idleSum, spanSum = idleSum+int64(idle), spanSum+int64(last-first)
		}
		for i := range rows {
			r := &rows[i]
			longest := 0 // of what the job's earlier rows begin with
			for j := range i {
				if rows[j].job == r.job {
					longest = max(longest, min(sharedWith(&rows[j], r), r.in))
				}
			}
			within, tokens = within+longest, tokens+r.in
			if r.cached >= 0 {
				cached, cachedOf = cached+r.cached, cachedOf+r.in
			}
			if r.took >= 0 {
				took = append(took, int64(r.took))
			}
			since := -1
			for _, on := range []int{r.before, r.spawn, r.join} {
				if on >= 0 {
					since = max(since, end(&rows[on]))
				}
			}
			if since >= 0 && since <= r.at {
				tools = append(tools, int64(r.at-since))
			}
			if r.before < 0 {
				continue
			}
			same := 0
			for was := rows[r.before].ids; same < min(len(was), len(r.ids)) && was[same] == r.ids[same]; same++ {
			}
			grown = append(grown, int64(max(0, r.in-64*same)))
			if follow++; float64(same) < 0.9*float64(len(rows[r.before].ids)) {
				compacted++
			}
		}
		near(t, "spans", got.SpanS, over(spans, 1000))
		near(t, "idle", got.IdleS, over(idles, 1000))
		near(t, "tools", report.Sessions.ThinkS, over(tools, 1000))
		near(t, "took", got.TookS, over(took, 1000))
		near(t, "new tokens", got.NewTokens, over(grown, 1))
		near(t, "at once", got.AtOnce, over(atOnce, 1))
		for name, c := range map[string][2]float64{
			"idle": {*got.IdleShare, float64(idleSum) / float64(spanSum)}, "compacted": {*got.CompactedShare, float64(compacted) / float64(follow)},
			"within": {*got.WithinJobs, float64(within) / float64(tokens)}, "across": {*got.AcrossJobs, 0}, "recorded": {*got.RecordedHits, float64(cached) / float64(cachedOf)},
		} {
			if c[0]-c[1] > 1e-12 || c[1]-c[0] > 1e-12 {
				t.Errorf("seed %d, %s: %v, want %v", seed, name, c[0], c[1])
			}
		}
		spawns, joins := 0, 0
		for _, r := range rows {
			if r.spawn >= 0 {
				spawns++
			}
			if r.join >= 0 {
				joins++
			}
		}
		if got.Jobs != int64(len(spans)) || got.Spawns != int64(spawns) || got.Joins != int64(joins) || len(got.Depths) != 2 || got.Depths[0].Rows+got.Depths[1].Rows != int64(len(rows)) {
			t.Errorf("seed %d: %+v", seed, got)
		}
	}
}

// over describes values divided by a unit.
func over(values []int64, unit float64) *stats.Percentiles {
	var all []float64
	for _, v := range values {
		all = append(all, float64(v)/unit)
	}
	return naive(all)
}

// sharedWith is how many tokens of r stand at the front of an earlier prompt; the last block of either may not be
// whole.
func sharedWith(earlier, r *rawAgent) (tokens int) {
	for k := 0; k < min(len(earlier.ids), len(r.ids)) && earlier.ids[k] == r.ids[k]; k++ {
		n := min(64, earlier.in-64*k, r.in-64*k)
		if tokens += n; n < 64 {
			break
		}
	}
	return tokens
}

// TestWeka compares with numbers that were computed from the file without this project.
func TestWeka(t *testing.T) {
	dir := os.Getenv("FASTREPLAY_TRACES")
	if dir == "" || testing.Short() {
		t.Skip("FASTREPLAY_TRACES names no directory with weka-48.jsonl.zst, or -short")
	}
	file := must.Have(os.Open(filepath.Join(dir, "weka-48.jsonl.zst")))(t)
	defer file.Close()
	tr := must.Have(trace.Read(file, file.Name(), trace.Options{}))(t)
	a := agentsOf(tr, Options{}, picture(tr))
	for name, c := range map[string][2]float64{
		"rows": {float64(a.Depths[0].Rows + a.Depths[1].Rows), 6192}, "jobs": {float64(a.Jobs), 48}, "hits": {*a.WithinJobs, 0.961154}, "sub-agents": {a.SubAgentsPerJob.Mean, 1},
		"most sub-agents": {a.SubAgentsPerJob.Max, 12}, "took p50": {a.TookS.P50, 6.1}, "took p99": {a.TookS.P99, 68.77}, "TTFT p50": {a.TTFTS.P50, 2.78}, "TTFT p99": {a.TTFTS.P99, 12.89},
		"longest job": {a.SpanS.Max, 94902.72},
	} {
		expect.Near(t, c[0], c[1], 1e-5*max(1, c[1]), name)
	}
}
