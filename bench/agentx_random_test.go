package bench

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

const (
	// wekaBlock is how many tokens a block has, and so a marker.
	wekaBlock = 8
	// promptUnit is by how many tokens prompts of random trees differ: no two are equal, so a length names a request.
	promptUnit = 32
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

// publishedTrees are the published jobs with short prompts of which no two are equally long.
func publishedTrees(t *testing.T) []wekaJob {
	t.Helper()
	dir := os.Getenv("FASTREPLAY_TRACES")
	if dir == "" || os.Getenv("FASTREPLAY_AGENTX") == "" {
		t.Skip("FASTREPLAY_TRACES names no directory with weka-48.jsonl.zst, or FASTREPLAY_AGENTX is not set")
	}
	jobs := readLines[wekaJob](t, filepath.Join(dir, "weka-48.jsonl.zst"))
	for n := range jobs {
		jobs[n].Block = wekaBlock
		requests := 0
		shorten(jobs[n].Requests, func(r *wekaRow) {
			requests++
			r.In = 64*requests + n
			r.Out = 2 + r.Out%4
			r.IDs = r.IDs[:min(len(r.IDs)/16, r.In/wekaBlock)]
			for len(r.IDs) < r.In/wekaBlock {
				r.IDs = append(r.IDs, 1<<20*requests+len(r.IDs))
			}
		})
	}
	return jobs
}

// shorten changes all requests of an agent.
func shorten(rows []wekaRow, change func(*wekaRow)) {
	for i := range rows {
		if rows[i].Type == "subagent" {
			shorten(rows[i].Requests, change)
		} else {
			change(&rows[i])
		}
	}
}

// writeWeka writes jobs as a trace.
func writeWeka(t testing.TB, jobs []wekaJob) string {
	t.Helper()
	var b []byte
	for _, job := range jobs {
		b = append(append(b, must.Have(json.Marshal(job))(t)...), '\n')
	}
	return newFile(t, "weka.jsonl", b)
}
