package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pretend is a run without faults on a server whose answers take some ms.
func (w *laneRun) pretend(seed uint64) (all []arrival) {
	chance := rand.New(rand.NewPCG(seed, 2))
	w.simulate(func(d due) answer {
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
	})
	return all
}

// randomRun is a run of random trees with all that lanes can do.
func randomRun(t testing.TB, seed uint64) (*laneRun, string) {
	t.Helper()
	path := writeWeka(t, randomTrees(seed))
	w := &laneRun{
		trees: readWeka(t, path), lanes: 1 + int(seed%7), scale: 400, snapshot: true, warmUp: 10, recycle: true,
		seed: seed, treeIdle: 30_000_000, allIdle: 10_000_000, duration: 700_000_000,
	}
	return w, path
}

// prove replays a trace in lanes, and checks what came.
func (w *laneRun) prove(t *testing.T, path string, flags ...string) *results {
	t.Helper()
	var r *results
	quickEnough(t, func() string {
		m := startMock(t, "--ttft", "3ms", "--itl", "1ms", "--log-all")
		r = run(t, append([]string{
			path, "--url", m.url, "--sessions", fmt.Sprint("lanes=", w.lanes), "--scale", fmt.Sprint(w.scale),
			"--no-probe", "--scrape", "off", "--cold", "off",
		}, flags...)...)
		m.stop(t)
		r.only(t, "ok")
		faults, late := w.check(w.read(t, r, m.log))
		if len(faults) > 0 {
			t.Errorf("%d faults:\n%s", len(faults), strings.Join(faults[:min(9, len(faults))], "\n"))
			return ""
		}
		return strings.Join(late, "\n")
	})
	return r
}

// TestLanesOfRandomTrees: whole trees in lanes, with and without idle times of all.
func TestLanesOfRandomTrees(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := writeWeka(t, randomTrees(seed))
			w := &laneRun{trees: readWeka(t, path), scale: 400}
			w.lanes = min(1+int(seed%3), len(w.trees))
			var flags []string
			if seed%2 == 1 {
				w.allIdle = 10_000_000
				flags = []string{"--idle-cap", "system=10ms"}
			}
			w.prove(t, path, flags...)
		})
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

// find is the last of a run's requests that is as wanted; -1 = none.
func find(all []arrival, wanted func(a *arrival) bool) int {
	for i := len(all) - 1; i >= 0; i-- {
		if wanted(&all[i]) {
			return i
		}
	}
	return -1
}

// moved is a run in which a request came at another time.
func moved(all []arrival, i int, by int64) []arrival {
	if i < 0 {
		return nil
	}
	a := &all[i]
	for _, at := range []*int64{&a.at, &a.sent, &a.came, &a.last, &a.done} {
		*at += by
	}
	return all
}

// defects plant something into a run that is wrong; nil if it has no place for that.
func defects() map[string]func(w *laneRun, all []arrival) []arrival {
	of := func(phase string) func(*arrival) bool {
		return func(a *arrival) bool { return a.phase == phase }
	}
	again := func(all []arrival, i int) []arrival {
		if i < 0 {
			return nil
		}
		return append(all, all[i])
	}
	missing := func(all []arrival, i int) []arrival {
		if i < 0 {
			return nil
		}
		return slices.Delete(all, i, i+1)
	}
	waits := func(w *laneRun) func(*arrival) bool {
		return func(a *arrival) bool {
			return a.phase == profile && a.play >= w.lanes && len(w.trees[a.tree].rows[a.row].waits) > 0
		}
	}
	return map[string]func(w *laneRun, all []arrival) []arrival{
		"a primer twice":       func(_ *laneRun, all []arrival) []arrival { return again(all, find(all, of(primer))) },
		"no primer":            func(_ *laneRun, all []arrival) []arrival { return missing(all, find(all, of(primer))) },
		"one warm-up less":     func(_ *laneRun, all []arrival) []arrival { return missing(all, find(all, of(warmUp))) },
		"a request is missing": func(_ *laneRun, all []arrival) []arrival { return missing(all, find(all, of(profile))) },
		"5 ms too early":       func(w *laneRun, all []arrival) []arrival { return moved(all, find(all, waits(w)), -5_000_000) },
		"5 ms too late":        func(w *laneRun, all []arrival) []arrival { return moved(all, find(all, waits(w)), 5_000_000) },
		"too early only for the server": func(w *laneRun, all []arrival) []arrival {
			i := find(all, waits(w))
			if i < 0 {
				return nil
			}
			all[i].came -= 5_000_000
			return all
		},
		"a marker of another play": func(_ *laneRun, all []arrival) []arrival {
			i := find(all, func(a *arrival) bool { return a.play != all[0].play })
			if i < 0 {
				return nil
			}
			all[i].marker = all[0].marker
			return all
		},
		"a play with the marker of another": func(_ *laneRun, all []arrival) []arrival {
			last := all[len(all)-1].play
			if last == 0 {
				return nil
			}
			for i := range all {
				if all[i].play == last {
					all[i].marker = all[0].marker
				}
			}
			return all
		},
		"a broken barrier": func(_ *laneRun, all []arrival) []arrival {
			i := slices.IndexFunc(all, func(a arrival) bool { return a.phase == profile })
			return moved(all, i, -5_000_000)
		},
		"a primer with a whole answer": func(_ *laneRun, all []arrival) []arrival {
			i := find(all, of(primer))
			if i < 0 {
				return nil
			}
			all[i].prepares = false
			return all
		},
		"another tree": func(w *laneRun, all []arrival) []arrival {
			if len(w.trees) < 2 {
				return nil
			}
			for i := range all {
				if all[i].play == all[len(all)-1].play {
					all[i].tree = (all[i].tree + 1) % len(w.trees)
				}
			}
			all[len(all)-1].row = 0
			return all
		},
		"a whole play later": func(w *laneRun, all []arrival) []arrival {
			last := all[len(all)-1].play
			if last < w.lanes {
				return nil
			}
			for i := range all {
				if all[i].play == last {
					all = moved(all, i, 3_000_000)
				}
			}
			return all
		},
	}
}
