package bench

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

const (
	// promptUnit divides the lengths of all prompts of random trees. No two are equal, so a length names a request,
	// whatever a marker adds.
	promptUnit = 32
	wekaBlock  = 8
)

// grower makes up trees. Times are ms.
type grower struct {
	*rand.Rand
	prompts, ids int
}

func (g *grower) between(from, to int) int { return from + g.IntN(to-from+1) }

// oneIn says yes once in n times.
func (g *grower) oneIn(n int) bool { return g.IntN(n) == 0 }

// randomTrees are 2 to 6 jobs with sub-agents in sub-agents and in the background, requests that overlap, pauses of all
// lengths, and now and then a single request.
func randomTrees(seed uint64) (jobs []wekaJob) {
	g := &grower{Rand: rand.New(rand.NewPCG(seed, 1))}
	for n := range g.between(2, 6) {
		turns := g.between(3, 9)
		if g.oneIn(6) {
			turns = 1
		}
		rows, _ := g.agent(0, turns, 0)
		jobs = append(jobs, wekaJob{ID: "job-" + string(rune('a'+n)), Scope: "local", Block: wekaBlock, Requests: rows})
	}
	return jobs
}

// agent is what an agent does from an instant on, and when it has ended.
func (g *grower) agent(at, turns, depth int) (rows []wekaRow, end int) {
	var chain []int
	for range turns {
		var r wekaRow
		r, chain = g.request(at, chain)
		rows = append(rows, r)
		took := int(math.Round(*r.Took * 1e3))
		end = max(end, at+took)
		if g.oneIn(6) { // a request of another chain meanwhile
			r, _ := g.request(at+took/2, chain[:g.IntN(2)])
			rows = append(rows, r)
		}
		joined := at + took
		for depth < 2 && g.oneIn(3) {
			begin := at + took + g.between(0, 900)
			inside, last := g.agent(g.between(0, 300), g.between(1, 4), depth+1)
			sub := wekaRow{T: seconds(begin), Type: "subagent", Agent: "agent", Requests: inside}
			if !g.oneIn(4) { // else nothing waits for it
				duration := float64(last + g.between(0, 200))
				sub.Duration = &duration
				joined = max(joined, begin+int(duration))
				sub.T = seconds(begin + int(duration))
			}
			rows = append(rows, sub)
		}
		end = max(end, joined)
		at = joined + g.between(2_000, 8_000)
		if g.oneIn(5) {
			at += g.between(10_000, 60_000)
		}
	}
	return rows, end
}

func seconds(ms int) float64 { return float64(ms) / 1e3 }

// request is a request at an instant, and the ids of its prompt, which begin with those of a chain.
func (g *grower) request(at int, chain []int) (wekaRow, []int) {
	g.prompts++
	took := seconds(g.between(1_000, 4_000))
	r := wekaRow{
		T: seconds(at), Type: "n", In: promptUnit * g.prompts, Out: g.between(2, 5), Took: &took,
	}
	r.IDs = append(r.IDs, chain...)
	for len(r.IDs) < r.In/wekaBlock {
		g.ids++
		r.IDs = append(r.IDs, g.ids)
	}
	return r, r.IDs
}

// writeWeka writes jobs as a trace.
func writeWeka(t testing.TB, jobs []wekaJob) string {
	t.Helper()
	var b []byte
	for _, job := range jobs {
		b = append(append(b, have(json.Marshal(job))(t)...), '\n')
	}
	path := filepath.Join(t.TempDir(), "weka.jsonl")
	must(t, os.WriteFile(path, b, 0o600))
	return path
}
