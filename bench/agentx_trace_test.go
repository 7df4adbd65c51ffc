package bench

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
)

// wekaJob is a line of a Weka trace, as encoding/json has it.
type wekaJob struct {
	ID       string    `json:"id"`
	Scope    string    `json:"hash_id_scope"`
	Block    int       `json:"block_size"`
	Requests []wekaRow `json:"requests"`
}

// wekaRow is a request, or a sub-agent with requests of its own. Times are s.
type wekaRow struct {
	T        float64   `json:"t"`
	Type     string    `json:"type"`
	In       int       `json:"in,omitempty"`
	Out      int       `json:"out,omitempty"`
	IDs      []int     `json:"hash_ids,omitempty"`
	Took     *float64  `json:"api_time,omitempty"`
	Agent    string    `json:"agent_id,omitempty"`
	Duration *float64  `json:"duration_ms,omitempty"`
	Requests []wekaRow `json:"requests,omitempty"`
}

// tree is a job: all requests of its agents, in the order of the file.
type tree struct {
	name string
	rows []asked
}

// asked is a recorded request. Instants are ns since the job began.
type asked struct {
	agent   int // 0 = the job's first one
	in, out int
	ids     []int
	at, end int64
	unknown bool // when it ended
	waits   []awaited
}

// awaited is another request of the tree. The delay counts from its end, or from its dispatch.
type awaited struct {
	on       int
	delay    int64
	dispatch bool
}

// asker is an agent while its tree is read.
type asker struct {
	calls []int
	subs  []*asker
	end   int64 // -1 = it runs in the background
}

// skew and soon are what the manual says of clocks and of sub-agents' begins, ns.
const (
	skew = int64(time.Second)
	soon = int64(1500 * time.Millisecond)
)

// readWeka reads a trace and finds out what waits for what by the manual's rules, with none of the client's code.
func readWeka(t testing.TB, path string) []tree {
	t.Helper()
	var all []tree
	for _, job := range readLines[wekaJob](t, path) {
		w := &tree{name: job.ID}
		agents := 0
		w.link(w.read(job.Requests, 0, &agents))
		all = append(all, *w)
	}
	return all
}

// read reads an agent whose instants count from base.
func (w *tree) read(list []wekaRow, base int64, agents *int) *asker {
	a := &asker{end: -1}
	number := *agents
	*agents++
	for _, r := range list {
		at := base + nanoseconds(r.T)
		if r.Type != "subagent" {
			a.calls = append(a.calls, len(w.rows))
			ask := asked{agent: number, in: r.In, out: r.Out, ids: r.IDs, at: at, end: at, unknown: r.Took == nil}
			if r.Took != nil {
				ask.end += nanoseconds(*r.Took)
			}
			w.rows = append(w.rows, ask)
			continue
		}
		end := int64(-1)
		if r.Duration != nil { // then the instant is its end
			end = at
			at -= nanoseconds(*r.Duration / 1e3)
		}
		sub := w.read(r.Requests, at, agents)
		sub.end = end
		a.subs = append(a.subs, sub)
	}
	return a
}

func nanoseconds(s float64) int64 { return int64(math.Round(s * 1e9)) }

func (w *tree) inTime(i, j int) int {
	return cmp.Or(cmp.Compare(w.rows[i].at, w.rows[j].at), cmp.Compare(i, j))
}

// link finds out what an agent's requests wait for, and returns those of which its parent needs the end.
func (w *tree) link(a *asker) (last []int) {
	slices.SortFunc(a.calls, w.inTime)
	for _, s := range a.subs {
		ends := w.link(s)
		if len(s.calls) == 0 {
			continue
		}
		first := s.calls[0]
		begun := slices.DeleteFunc(slices.Clone(a.calls), func(i int) bool { return w.inTime(i, first) > 0 })
		cause, known := w.cause(begun, w.rows[first].at)
		if known {
			w.wait(first, cause)
		}
		if s.end < 0 {
			continue
		}
		end := s.end
		for _, i := range ends {
			end = max(end, w.rows[i].end)
		}
		next := slices.IndexFunc(a.calls, func(i int) bool {
			later := cmp.Or(cmp.Compare(w.rows[i].at, end), cmp.Compare(i, slices.Max(ends)))
			return later >= 0 && (!known || w.inTime(i, cause.on) > 0)
		})
		if next < 0 {
			last = append(last, ends...)
			continue
		}
		for _, i := range ends {
			w.wait(a.calls[next], awaited{on: i})
		}
	}
	return append(last, w.chains(a.calls)...)
}

// chains has each request follow that one whose prefix it shares, and returns the ends of the chains.
func (w *tree) chains(calls []int) (tails []int) {
	for _, i := range calls {
		at := w.rows[i].at
		flies := func(j int) bool { return w.rows[j].end > at+skew }
		best := -1
		most := -1
		for k, j := range tails {
			n := alike(w.rows[i].ids, w.rows[j].ids)
			if n > most || n == most && !flies(j) && w.rows[j].end >= w.rows[tails[best]].end {
				best, most = k, n
			}
		}
		switch {
		case best < 0:
			tails = append(tails, i)
		case most == 0 || flies(tails[best]):
			cause, _ := w.cause(tails, at)
			w.wait(i, cause)
			tails = append(tails, i)
		default:
			w.wait(i, awaited{on: tails[best]})
			tails[best] = i
		}
	}
	return tails
}

// alike is how many elements two lists begin with alike.
func alike[T comparable](a, b []T) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// cause is after which of some requests another one began at an instant.
func (w *tree) cause(among []int, at int64) (on awaited, known bool) {
	ended := -1
	flying := -1
	for _, i := range among {
		switch {
		case w.rows[i].end <= at+skew:
			if ended < 0 || w.rows[i].end >= w.rows[ended].end {
				ended = i
			}
		case flying < 0 || w.rows[i].at >= w.rows[flying].at:
			flying = i
		}
	}
	if flying >= 0 && (ended < 0 || at-w.rows[ended].end > soon) {
		return awaited{on: flying, dispatch: true}, true
	}
	return awaited{on: ended}, ended >= 0
}

// wait adds what a request waits for. Delays after ends count from the last one. After an end that is not known the
// request leaves at once, but keeps its distance from the dispatch.
func (w *tree) wait(i int, on awaited) {
	r := &w.rows[i]
	r.waits = append(r.waits, on)
	if w.rows[on.on].unknown && !on.dispatch {
		r.waits = append(r.waits, awaited{on: on.on, dispatch: true})
	}
	last := int64(math.MinInt64)
	for _, d := range r.waits {
		if !d.dispatch && !w.rows[d.on].unknown {
			last = max(last, w.rows[d.on].end)
		}
	}
	for k, d := range r.waits {
		switch {
		case d.dispatch:
			r.waits[k].delay = r.at - w.rows[d.on].at
		case !w.rows[d.on].unknown:
			r.waits[k].delay = max(0, r.at-last)
		}
	}
}

// TestWaitsOfWeka: the client finds out what the checks do, in random trees and in the published ones.
func TestWaitsOfWeka(t *testing.T) {
	t.Parallel()
	paths := []string{filepath.Join("samples", "weka.jsonl")}
	for seed := range uint64(10) {
		paths = append(paths, writeWeka(t, randomTrees(seed)))
	}
	if dir := os.Getenv("FASTREPLAY_TRACES"); dir != "" {
		paths = append(paths, filepath.Join(dir, "weka-48.jsonl.zst"))
	}
	for _, path := range paths {
		out := filepath.Join(t.TempDir(), "graph.jsonl")
		succeeds(t, "convert", path, "--format", "agentic_mooncake", "--output", out)
		graph := readLines[mooncakeRow](t, out)
		for _, w := range readWeka(t, path) {
			w.compare(t, graph)
		}
	}
}

// mooncakeRow is a request of a graph that convert wrote. The head has no ID.
type mooncakeRow struct {
	ID           string `json:"request_id"`
	Play         string `json:"play_id"`
	Dependencies []struct {
		ID      string  `json:"request_id"`
		Trigger string  `json:"trigger"`
		DelayMS float64 `json:"delay_ms"`
	} `json:"dependencies"`
}

// compare compares the waits of a tree with a graph's, whose rows are in order of time.
func (w *tree) compare(t *testing.T, graph []mooncakeRow) {
	t.Helper()
	graph = slices.DeleteFunc(slices.Clone(graph), func(r mooncakeRow) bool { return r.Play != w.name })
	order := w.inOrder()
	must.Equal(t, len(order), len(graph), "requests in the graph of %s", w.name)
	place := map[string]int{}
	for k, i := range order {
		place[graph[k].ID] = i
		var want, got []string
		for _, d := range w.rows[i].waits {
			want = append(want, fmt.Sprint(d.on, d.dispatch, d.delay))
		}
		for _, d := range graph[k].Dependencies {
			got = append(got, fmt.Sprint(place[d.ID], d.Trigger == "dispatch", int64(math.Round(d.DelayMS*1e6))))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s, request %d of %d at %d: waits for %q, want %q", w.name, i, len(order), w.rows[i].at, got, want)
		}
	}
}
