package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// waiting is a request of a random graph, and what it must not come before.
type waiting struct {
	job, number int
	atMS        int
	waits       []wait
}

// wait is on a request of the same job, by its number there.
type wait struct {
	on, delayMS int
	dispatch    bool
}

// faster is how much faster than recorded the graphs are replayed.
const faster = 2

// randomJobs are graphs of 2 to 6 requests, in order of their instants. As recorded, each request took a ms.
func randomJobs(jobs int) (all []waiting) {
	rng := rand.New(rand.NewPCG(7, 8))
	for job := range jobs {
		var own []waiting
		start := rng.IntN(1 + jobs)
		for k := range 2 + rng.IntN(5) {
			w := waiting{job: job, number: k, atMS: start}
			for range min(k, 1+rng.IntN(3)) {
				d := wait{on: rng.IntN(k), delayMS: rng.IntN(3) * rng.IntN(10)}
				since := own[d.on].atMS + 1
				if rng.IntN(4) == 0 {
					d.dispatch, since = true, since-1
				}
				w.waits = append(w.waits, d)
				w.atMS = max(w.atMS, since+d.delayMS)
			}
			own = append(own, w)
		}
		all = append(all, own...)
	}
	slices.SortStableFunc(all, func(a, b waiting) int { return a.atMS - b.atMS })
	return all
}

// writeGraph writes the requests as a trace in their order.
func writeGraph(t *testing.T, all []waiting) string {
	t.Helper()
	type dependency struct {
		Request  string `json:"request_id"`
		Trigger  string `json:"trigger"`
		Relation string `json:"relation"`
		Delay    int    `json:"delay_ms"`
	}
	name := func(job, number int) string { return fmt.Sprintf("j%d-%d", job, number) }
	b := []byte(`{"schema":"dynamo.agentic_mooncake","version":2,"block_size":16,"hash_id_scope":"local","source":{"format":"test","digest":""}}` + "\n")
	for _, w := range all {
		dependencies := []dependency{}
		for _, d := range w.waits {
			dependencies = append(dependencies, dependency{name(w.job, d.on), map[bool]string{true: "dispatch", false: "completion"}[d.dispatch], "replay_barrier", d.delayMS})
		}
		notBefore := 0
		if len(w.waits) == 0 {
			notBefore = w.atMS
		}
		row := must.Have(json.Marshal(map[string]any{"request_id": name(w.job, w.number), "play_id": fmt.Sprint("j", w.job), "session_id": fmt.Sprint("agent", w.number), "model": "m",
			"input_length": 20, "output_length": 1 + w.number%3, "hash_ids": []int{1, 2}, "not_before_ms": notBefore, "timestamp": w.atMS, "dependencies": dependencies}))(t)
		b = append(append(b, row...), '\n')
	}
	return newFile(t, "graph.jsonl", b)
}

// violations counts, by the server's log alone, the requests that came before what they depend on: the last token of
// another one, or its arrival, and the delay. It also returns the most jobs that were on the server at a time.
func violations(t *testing.T, all []waiting, logs map[string][]served) (early, atOnce int) {
	t.Helper()
	type place struct{ job, number int }
	came := map[place]served{}
	for id, lines := range logs {
		if strings.HasPrefix(id, "mock-") {
			continue // a probe, which has no id of its own
		}
		_, number, _ := strings.Cut(id, "-") // of the request in the order of the trace
		i, err := strconv.Atoi(number)
		if err != nil || i >= len(all) || len(lines) != 1 || lines[0].Status != 200 {
			t.Fatalf("the server has %q as %+v, %v", id, lines, err)
		}
		came[place{all[i].job, all[i].number}] = lines[0]
	}
	must.Equal(t, len(came), len(all), "requests that the server got")
	type change struct {
		at int64
		by int
	}
	begins, ends := map[int]int64{}, map[int]int64{}
	for _, w := range all {
		own, broken := came[place{w.job, w.number}], false
		for _, d := range w.waits {
			other := came[place{w.job, d.on}]
			switch {
			case !d.dispatch:
				broken = broken || own.Arrival < other.Last+int64(d.delayMS)*1e6/faster
			case runtime.GOOS == "linux": // elsewhere a server stamps an arrival when it has time to
				// The delay counts from when the client began to write, of which a server knows nothing.
				broken = broken || own.Arrival < other.Arrival
			}
		}
		if broken {
			early++
		}
		if begin, known := begins[w.job]; !known || own.Arrival < begin {
			begins[w.job] = own.Arrival
		}
		ends[w.job] = max(ends[w.job], own.Last)
	}
	var changes []change
	for job := range begins {
		changes = append(changes, change{begins[job], 1}, change{ends[job], -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return int(min(1, max(-1, a.at-b.at))) })
	for n, k := 0, 0; k < len(changes); k++ {
		n += changes[k].by
		atOnce = max(atOnce, n)
	}
	return early, atOnce
}

// dispatchedEarly counts, by the client's records, the requests that it began to write before the sending that they wait
// for, and the delay.
func dispatchedEarly(all []waiting, lines []line) (early int) {
	sent := map[[2]int]int64{}
	for _, l := range lines {
		w := all[l.Row]
		sent[[2]int{w.job, w.number}] = l.Sent
	}
	for _, w := range all {
		if slices.ContainsFunc(w.waits, func(d wait) bool {
			return d.dispatch && sent[[2]int{w.job, w.number}] < sent[[2]int{w.job, d.on}]+int64(d.delayMS)*1e6/faster
		}) {
			early++
		}
	}
	return early
}

// TestNoRequestBeforeWhatItDependsOn: of 1,000 random graphs none is replayed in a wrong order, says the server's log.
// The same graphs at their recorded instants, which are too early for this server, show that the check finds what is
// wrong.
func TestNoRequestBeforeWhatItDependsOn(t *testing.T) {
	t.Parallel()
	for mode, jobs := range map[string]int{"think": 300, "lanes=12": 60, "gated": 30, "strict": 30} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				jobs = min(jobs, 60)
			}
			all := randomJobs(jobs)
			checked := all
			if mode == "gated" { // without delays
				checked = slices.Clone(all)
				for i := range checked {
					checked[i].waits = slices.Clone(checked[i].waits)
					for k := range checked[i].waits {
						checked[i].waits[k].delayMS = 0
					}
				}
			}
			graph := writeGraph(t, all)
			quickEnough(t, func() string {
				m := startMock(t, "--ttft", "3ms", "--itl", "1ms")
				r := run(t, graph, "--url", m.url, "--sessions", mode, "--scale", strconv.Itoa(faster), "--no-probe", "--scrape", "off")
				logs := m.stop(t)
				r.only(t, "ok")
				early, atOnce := violations(t, checked, logs)
				early += dispatchedEarly(checked, r.lines)
				if turns := r.summary.Turns; turns == nil || turns.Sessions != mode || turns.FollowUps == 0 || (turns.Overtaking > 0) != (mode == "strict") {
					t.Errorf("turns %+v", turns)
				}
				if (early > 0) != (mode == "strict") || mode == "lanes=12" && atOnce > 12 {
					t.Errorf("%d of %d requests came too early; %d jobs at once", early, len(all), atOnce)
				}
				t.Logf("%d of %d requests came too early; %d jobs at once", early, len(all), atOnce)
				if mode == "lanes=12" && atOnce < 6 {
					return fmt.Sprintf("only %d of 12 jobs were on the server at once", atOnce)
				}
				return ""
			})
		})
	}
}
