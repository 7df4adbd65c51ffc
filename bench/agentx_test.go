package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// pretend is a run without faults on a server whose answers take some ms.
func (w *laneRun) pretend(seed uint64) (all []arrival) {
	chance := rand.New(rand.NewPCG(seed, 2))
	w.barrier = w.simulate(func(d due, _ bool) answer {
		a := arrival{due: d, tree: d.play % len(w.trees), prepares: d.phase != profile}
		if w.recycle {
			a.marker = fmt.Sprint("play ", d.play)
		}
		a.sent = d.at + chance.Int64N(200_000)
		a.came = a.sent + 50_000
		a.last = a.came + 3_000_000 + chance.Int64N(9_000_000)
		a.done = a.last + 50_000
		all = append(all, a)
		return answer{a.at, a.sent, a.done}
	}).barrier
	return all
}

// randomRun is a run of random trees with all that lanes can do.
func randomRun(t testing.TB, seed uint64) (*laneRun, string) {
	t.Helper()
	path := writeWeka(t, randomTrees(seed))
	w := &laneRun{
		trees: readWeka(t, path), lanes: 1 + int(seed%7), scale: 400, snapshot: true, warmUp: 10, recycle: true,
		seed: seed, treeIdle: 30_000_000, duration: 700_000_000,
	}
	if seed%3 > 0 {
		w.allIdle = 10_000_000
	}
	return w, path
}

// prove replays a trace in lanes, and checks what came. Where instants alone are wrong, that may be the machine's doing:
// after three such runs nothing is proven of them.
func (w *laneRun) prove(t *testing.T, path string, flags ...string) {
	t.Helper()
	again := map[string]int{} // how often the same request was at another time
	for range 3 {
		m := startMock(t, "--ttft", "3ms", "--itl", "1ms", "--log-all")
		r := run(t, append([]string{
			path, "--url", m.url, "--sessions", fmt.Sprint("lanes=", w.lanes), "--scale", fmt.Sprint(w.scale),
			"--no-probe", "--scrape", "off", "--cold", "off",
		}, flags...)...)
		m.stop(t)
		r.takeUnreleased(t)
		r.only(t, "ok")
		all := w.read(t, r, m.log)
		faults, late := w.check(all)
		faults = append(faults, w.numbers(r, all)...)
		if len(faults) > 0 {
			t.Errorf("%d faults:\n%s", len(faults), strings.Join(faults[:min(9, len(faults))], "\n"))
		}
		if len(faults)+len(late) == 0 || t.Failed() {
			return
		}
		t.Logf("%d were at another time, of which the first: %s", len(late), late[0])
		for _, one := range late {
			request, _, _ := strings.Cut(one, ")")
			again[request]++
			if again[request] == 3 && quietMachine() {
				t.Errorf("this machine has nothing else to do, and still, the third time: %s", one)
			}
		}
	}
	t.Skip("this machine is too slow")
}

// TestLanesOfRandomTrees: whole trees in lanes, with both caps of idle times, one or none.
func TestLanesOfRandomTrees(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := writeWeka(t, randomTrees(seed))
			w := &laneRun{trees: readWeka(t, path), scale: 400}
			w.lanes = min(1+int(seed%3), len(w.trees))
			var caps []string
			if seed%2 == 1 {
				w.allIdle = 10_000_000
				caps = append(caps, "system=10ms")
			}
			if seed%4 > 1 {
				w.treeIdle = 25_000_000
				caps = append(caps, "tree=25ms")
			}
			if caps != nil {
				caps = []string{"--idle-cap", strings.Join(caps, ",")}
			}
			w.prove(t, path, caps...)
		})
	}
}

// play proves a run with all that lanes can do.
func (w *laneRun) play(t *testing.T, path string) {
	t.Helper()
	ms := func(ns int64) string { return fmt.Sprint(ns/1_000_000, "ms") }
	idle := "tree=" + ms(w.treeIdle)
	if w.allIdle > 0 {
		idle += ",system=" + ms(w.allIdle)
	}
	w.prove(t, path, "--snapshot", "25%:75%", "--recycle", "--warmup", fmt.Sprint(w.warmUp), "--seed", fmt.Sprint(w.seed),
		"--idle-cap", idle, "--duration", ms(w.duration), "--assume-latency", "1ms,0.1ms")
}

// TestAgentX: random trees, 12 or as many as FASTREPLAY_AGENTX says.
func TestAgentX(t *testing.T) {
	t.Parallel()
	n := 12
	if many := os.Getenv("FASTREPLAY_AGENTX"); many != "" {
		n = must.Have(strconv.Atoi(many))(t)
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w, path := randomRun(t, seed)
			w.play(t, path)
		})
	}
}

// TestAgentXPublished: the published traces, 2,000 times as fast as they were recorded.
func TestAgentXPublished(t *testing.T) {
	t.Parallel()
	path := writeWeka(t, publishedTrees(t))
	w := &laneRun{
		trees: readWeka(t, path), lanes: 16, scale: 2000, snapshot: true, warmUp: 10, recycle: true,
		seed: 42, treeIdle: 150_000_000, allIdle: 5_000_000, duration: 3_000_000_000,
	}
	w.play(t, path)
}

// TestLanesOfPublished: the published traces in lanes, whole.
func TestLanesOfPublished(t *testing.T) {
	t.Parallel()
	path := writeWeka(t, publishedTrees(t))
	w := &laneRun{trees: readWeka(t, path), lanes: 16, scale: 20_000, allIdle: 5_000_000}
	w.prove(t, path, "--idle-cap", "system=5ms")
}

// TestSnapshotsAreUniform: over seeds, where lanes begin lies evenly in the middle half of their trees.
func TestSnapshotsAreUniform(t *testing.T) {
	t.Parallel()
	const n = 20_000
	shares := make([]float64, 0, n)
	for seed := range uint64(n) {
		w := &laneRun{trees: []tree{{name: "a"}, {name: "b"}}, seed: seed}
		shares = append(shares, w.share(int(seed%5)))
	}
	slices.Sort(shares)
	for i, share := range shares {
		if off := (share-0.25)*2 - float64(i)/n; math.Abs(off) > 0.015 { // of even ones 1 in 10,000 is so far off
			t.Fatalf("%d of %d snapshots lie before %v of the tree", i, n, share)
		}
	}
}

// TestCheckOfLanes: the check finds nothing wrong with runs that were made up, and each defect that is planted.
func TestCheckOfLanes(t *testing.T) {
	t.Parallel()
	planted := map[string]int{}
	for seed := range uint64(40) {
		w, _ := randomRun(t, seed)
		good := w.pretend(seed)
		if faults, late := w.check(good); len(faults)+len(late) > 0 {
			t.Fatalf("seed %d: %q, %q", seed, faults, late)
		}
		for name, plant := range defects() {
			bad := slices.Clone(good)
			if bad = plant(w, bad); bad == nil {
				continue
			}
			planted[name]++
			if faults, late := w.check(bad); len(faults)+len(late) == 0 {
				t.Errorf("seed %d: %s was not found", seed, name)
			}
		}
	}
	for name := range defects() {
		if planted[name] < 10 {
			t.Errorf("%s was planted %d times", name, planted[name])
		}
	}
}

// TestInstantsByHand: a simulation of one small job gives the instants that one finds by hand, in ms. Answers take 20 ms;
// a delay of a second in the trace is 10 ms.
func TestInstantsByHand(t *testing.T) {
	t.Parallel()
	job := strings.Join(strings.Fields(`{"id":"job","block_size":8,"hash_id_scope":"local","requests":[
		{"t":0,"type":"n","in":32,"out":2,"hash_ids":[1,2,3,4],"api_time":4},
		{"t":10,"type":"n","in":64,"out":2,"hash_ids":[1,2,3,4,5,6,7,8],"api_time":2},
		{"t":32.5,"type":"subagent","agent_id":"a","duration_ms":20000,"requests":[
			{"t":0.5,"type":"n","in":96,"out":2,"hash_ids":[11,12,13,14,15,16,17,18,19,20,21,22],"api_time":3},
			{"t":10,"type":"n","in":128,"out":2,"hash_ids":[11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26],"api_time":4}]},
		{"t":40,"type":"n","in":160,"out":2,"hash_ids":[1,2,3,4,5,6,7,8,31,32,33,34,35,36,37,38,39,40,41,42],"api_time":2},
		{"t":100,"type":"n","in":192,"out":2,"hash_ids":[1,2,3,4,5,6,7,8,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46],"api_time":1}]}`), "")
	path := newFile(t, "weka.jsonl", job+"\n")
	for name, c := range map[string]struct {
		set  func(*laneRun)
		want string
	}{
		"as recorded": {func(*laneRun) {}, "0:0 1:80 2:110 3:195 4:350 5:950"},
		"system cap":  {func(w *laneRun) { w.allIdle = 50e6 }, "0:0 1:70 2:100 3:170 4:240 5:310"},
		"tree cap":    {func(w *laneRun) { w.treeIdle = 100e6 }, "0:0 1:80 2:110 3:195 4:315 5:435"},
		"both caps": {func(w *laneRun) { w.treeIdle, w.allIdle = 62e6, 70e6 },
			"0:0 1:80 2:110 3:192 4:274 5:356"},
		// From 31.19 s on: main is primed with row 1, 211.9 ms before. One request is left to measure.
		"snapshot": {func(w *laneRun) { w.snapshot, w.warmUp = true, 10 }, "primer1:0 warmup4:211 5:231"},
		// The lane goes on with the whole job, and with two requests of the next, of which the others are measured.
		"snapshot, recycled": {func(w *laneRun) { w.snapshot, w.warmUp, w.recycle, w.duration = true, 10, true, 500e6 },
			"primer1:0 warmup4:211 warmup5:231 warmup0:251 warmup1:271 warmup2:291 warmup3:311 warmup4:331 warmup5:351 " +
				"warmup0:371 warmup1:391 2:411 3:496 4:651"},
		"no warm-up": {func(w *laneRun) { w.snapshot = true },
			"primer1:0 4:20 5:620"},
		"recycled": {func(w *laneRun) { w.recycle, w.allIdle, w.duration = true, 50e6, 480e6 },
			"0:0 1:70 2:100 3:170 4:240 5:310 0:330 1:400 2:430"},
	} {
		w := &laneRun{trees: readWeka(t, path), lanes: 1, scale: 100}
		c.set(w)
		var got []string
		w.simulate(func(d due, _ bool) answer {
			got = append(got, fmt.Sprintf("%s%d:%d", d.phase, d.row, d.at/1e6))
			return answer{d.at, d.at, d.at + 20e6}
		})
		expect.Equal(t, strings.Join(got, " "), c.want, "%s; the snapshot is at %d", name, w.first(0).at)
	}
}

// defects plant something into a run that is wrong; nil if it has no place for that.
func defects() map[string]func(w *laneRun, all []arrival) []arrival {
	type run = []arrival
	// changed plants a change of a run at a place; there is none at -1.
	changed := func(at int, change func() run) run {
		if at < 0 {
			return nil
		}
		return change()
	}
	last := func(all run, wanted func(a *arrival) bool) int {
		for i := len(all) - 1; i >= 0; i-- {
			if wanted(&all[i]) {
				return i
			}
		}
		return -1
	}
	lastOf := func(all run, phase string) int {
		return last(all, func(a *arrival) bool { return a.phase == phase })
	}
	missing := func(phase string) func(*laneRun, run) run {
		return func(_ *laneRun, all run) run {
			i := lastOf(all, phase)
			return changed(i, func() run { return slices.Delete(all, i, i+1) })
		}
	}
	waiting := func(change func(a *arrival)) func(*laneRun, run) run {
		return func(w *laneRun, all run) run {
			i := last(all, func(a *arrival) bool {
				return a.phase == profile && a.play >= w.lanes && len(w.trees[a.tree].rows[a.row].waits) > 0
			})
			return changed(i, func() run { change(&all[i]); return all })
		}
	}
	ofLastPlay := func(all run, change func(a *arrival)) run {
		play := all[len(all)-1].play
		for i := range all {
			if all[i].play == play {
				change(&all[i])
			}
		}
		return all
	}
	return map[string]func(w *laneRun, all run) run{
		"a primer twice": func(_ *laneRun, all run) run {
			i := lastOf(all, primer)
			return changed(i, func() run { return append(all, all[i]) })
		},
		"no primer":                     missing(primer),
		"one warm-up less":              missing(warmUp),
		"a request is missing":          missing(profile),
		"5 ms too early":                waiting(func(a *arrival) { a.move(-5_000_000) }),
		"5 ms too late":                 waiting(func(a *arrival) { a.move(5_000_000) }),
		"too early only for the server": waiting(func(a *arrival) { a.came -= 5_000_000 }),
		"a marker of another play": func(_ *laneRun, all run) run {
			i := last(all, func(a *arrival) bool { return a.play != all[0].play })
			return changed(i, func() run { all[i].marker = all[0].marker; return all })
		},
		"a play with the marker of another": func(_ *laneRun, all run) run {
			return changed(all[len(all)-1].play-1, func() run {
				return ofLastPlay(all, func(a *arrival) { a.marker = all[0].marker })
			})
		},
		"a broken barrier": func(_ *laneRun, all run) run {
			i := slices.IndexFunc(all, func(a arrival) bool { return a.phase == profile })
			return changed(i, func() run { all[i].move(-5_000_000); return all })
		},
		"a primer with a whole answer": func(_ *laneRun, all run) run {
			i := lastOf(all, primer)
			return changed(i, func() run { all[i].prepares = false; return all })
		},
		"another tree": func(w *laneRun, all run) run {
			return changed(len(w.trees)-2, func() run {
				ofLastPlay(all, func(a *arrival) { a.tree = (a.tree + 1) % len(w.trees) })
				all[len(all)-1].row = 0
				return all
			})
		},
		"a whole play later": func(w *laneRun, all run) run {
			return changed(all[len(all)-1].play-w.lanes, func() run {
				return ofLastPlay(all, func(a *arrival) { a.move(3_000_000) })
			})
		},
	}
}
