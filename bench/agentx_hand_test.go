package bench

import (
	"fmt"
	"strings"
	"testing"
)

// handJob is a job with two sub-agents that its main agent waits for. Instants are s; a and b begin at 12.5 and 14.
//
//	row  agent  from   to    follows
//	0    main   0      4
//	1    main   10     12    0 ends, 6 s later
//	2    a      13     16    1 ends, 1 s later
//	3    a      22.5   26.5  2 ends, 6.5 s later
//	4    b      14.5   16.5  1 ends, 2.5 s later
//	5    main   40     42    1, 3 and 4 end, 13.5 s later
//	6    main   50     51    5 ends, 8 s later
const handJob = `{"id":"job","block_size":8,"hash_id_scope":"local","requests":[
	{"t":0,"type":"n","in":32,"out":2,"hash_ids":[1,2,3,4],"api_time":4},
	{"t":10,"type":"n","in":64,"out":2,"hash_ids":[1,2,3,4,5,6,7,8],"api_time":2},
	{"t":32.5,"type":"subagent","agent_id":"a","duration_ms":20000,"requests":[
		{"t":0.5,"type":"n","in":96,"out":2,"hash_ids":[11,12,13,14,15,16,17,18,19,20,21,22],"api_time":3},
		{"t":10,"type":"n","in":128,"out":2,"hash_ids":[11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26],"api_time":4}]},
	{"t":18,"type":"subagent","agent_id":"b","duration_ms":4000,"requests":[
		{"t":0.5,"type":"n","in":40,"out":2,"hash_ids":[51,52,53,54,55],"api_time":2}]},
	{"t":40,"type":"n","in":160,"out":2,"api_time":2,
		"hash_ids":[1,2,3,4,5,6,7,8,31,32,33,34,35,36,37,38,39,40,41,42]},
	{"t":50,"type":"n","in":192,"out":2,"api_time":1,
		"hash_ids":[1,2,3,4,5,6,7,8,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46]}]}`

// byHand is when a request is to leave, in ms of the replay: at the latest, and if that differs, when idle times are cut
// as soon as they are over. end is when others ended.
type byHand struct{ at, cut func(end []float64) float64 }

// after is so long after the last of some requests has ended.
func after(ms float64, rows ...int) func([]float64) float64 {
	return func(end []float64) (at float64) {
		for _, row := range rows {
			at = max(at, end[row]+ms)
		}
		return at
	}
}

// earlier is the first of several instants.
func earlier(a, b func([]float64) float64) func([]float64) float64 {
	return func(end []float64) float64 { return min(a(end), b(end)) }
}

func start0([]float64) float64 { return 0 }

// TestReplayByHand: a replay of one small job leaves at the instants that one finds by hand from when the requests before
// had ended, however long they took: 100 times as fast, so 1 s of the trace is 10 ms. Seed 4 puts the snapshot at 19.116 s
// (0.38233 of 50 s), when main and a are alive and have sent rows 1 and 2, the primers.
func TestReplayByHand(t *testing.T) {
	t.Parallel()
	whole := []byHand{
		{at: start0}, {at: after(60, 0)}, {at: after(10, 1)}, {at: after(65, 2)}, {at: after(25, 1)},
		{at: after(135, 1, 3, 4)}, {at: after(80, 5)},
	}
	// Nothing is in flight for longer than 40 ms.
	capped := []byHand{
		{at: start0}, {after(60, 0), after(40, 0)}, {at: after(10, 1)},
		{after(65, 2), earlier(after(65, 2), after(40, 2, 4))}, {at: after(25, 1)},
		{after(135, 1, 3, 4), after(40, 1, 3, 4)}, {after(80, 5), after(40, 5)},
	}
	// The last primer leaves 30 ms after the first. Row 3 is the first that is measured, at the barrier, by which both had
	// ended. Row 5 goes on waiting for it.
	snapshot := []byHand{1: {at: start0}, 2: {at: func([]float64) float64 { return 30 }}, 3: {at: after(0, 7)},
		5: {at: after(135, 3)}, 6: {at: after(80, 5)}}
	// Row 3 warms up once the primers have ended, but not before the snapshot, 91.165 ms after row 1. Row 5 is the first
	// that is measured.
	warm := []byHand{1: {at: start0}, 2: snapshot[2], 3: {at: func(end []float64) float64 { return max(91.165, end[1], end[2]) }},
		5: {at: after(0, 7)}, 6: {at: after(80, 5)}}
	for name, c := range map[string]struct {
		flags string
		want  []byHand
	}{
		"whole":      {"", whole},
		"system cap": {"--idle-cap system=40ms", capped},
		"tree cap":   {"--idle-cap tree=40ms", capped},
		"both caps":  {"--idle-cap tree=40ms,system=60ms", capped},
		"snapshot":   {"--snapshot 25%:75% --seed 4", snapshot},
		"warm-up":    {"--snapshot 25%:75% --seed 4 --warmup 1", warm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t, "weka.jsonl", strings.Join(strings.Fields(handJob), "")+"\n")
			late := ""
			for range 3 {
				if late = replayByHand(t, path, strings.Fields(c.flags), c.want); late == "" || t.Failed() {
					return
				}
			}
			t.Skipf("this machine is too slow: idle times were cut less: %s", late)
		})
	}
}

// replayByHand compares a replay's instants with those found by hand, and says which idle times were cut less, since the
// client came to an answer when they were over.
func replayByHand(t *testing.T, path string, flags []string, want []byHand) (late string) {
	t.Helper()
	m := startMock(t, "--ttft", "15ms", "--itl", "5ms", "--spread", "0", "--log-all")
	r := run(t, append([]string{
		path, "--url", m.url, "--sessions", "lanes=1", "--scale", "100",
		"--no-probe", "--scrape", "off", "--cold", "off",
	}, flags...)...)
	m.stop(t)
	r.only(t, "ok")
	w := &laneRun{trees: readWeka(t, path), lanes: 1}
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	end := make([]float64, len(want)+1)
	at := make([]float64, len(want))
	came := make([]bool, len(want))
	for _, a := range w.read(t, r, m.log) {
		at[a.row], end[a.row], came[a.row] = ms(a.at), ms(a.done), true
	}
	end[len(want)] = ms(w.barrier)
	for row, x := range want {
		if came[row] != (x.at != nil) {
			t.Errorf("row %d came: %v", row, came[row])
		}
		if x.at == nil {
			continue
		}
		least, most := x.at(end), x.at(end)
		if x.cut != nil {
			least = x.cut(end)
		}
		const rounding = 0.001
		switch {
		case at[row] < least-rounding || at[row] > most+rounding:
			t.Errorf("row %d left at %v ms, want %v to %v", row, at[row], least, most)
		case at[row] > least+rounding:
			late += fmt.Sprintf("row %d left at %v ms, want %v; ", row, at[row], least)
		}
	}
	if end[len(want)] > 0 && end[len(want)] < max(end[1], end[2]) {
		t.Errorf("the barrier was at %v, and primers ended at %v and %v", end[len(want)], end[1], end[2])
	}
	return late
}
