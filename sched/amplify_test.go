package sched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// load makes arrivals of sessions, some of them long, some requests at one instant.
func load(seed uint64, requests, sessions int, span time.Duration) (at []int64, session []int32) {
	rng := rand.New(rand.NewPCG(seed, 99))
	for range requests {
		at = append(at, rng.Int64N(int64(span)+1)/int64(3*time.Second)*int64(3*time.Second))
		session = append(session, int32(rng.IntN(sessions)))
	}
	slices.Sort(at)
	first := at[0]
	for i := range at {
		at[i] -= first
	}
	return at, session
}

// alone is a load of an hour in which each request is a session.
func alone(seed uint64, requests int) (at []int64, session []int32) {
	at, session = load(seed, requests, 1, time.Hour)
	for i := range session {
		session[i] = int32(i)
	}
	return at, session
}

func amplify(t *testing.T, at []int64, session []int32, factor float64, seed uint64) *Amplified {
	t.Helper()
	a := must.Have(Amplify(at, session, factor, seed))(t)
	if !slices.IsSorted(a.ArrivalNS) || a.ArrivalNS[0] != 0 || len(a.Source) != len(a.Clone) || len(a.Source) != len(a.ArrivalNS) {
		t.Fatalf("no load in order from 0: %d, %d, %d", len(a.Source), len(a.Clone), len(a.ArrivalNS))
	}
	return a
}

// shifted is by how much each session of each clone was moved; all its requests must have been moved alike.
func shifted(t *testing.T, a *Amplified, at []int64, session []int32) map[[2]int32]int64 {
	t.Helper()
	moved, seen := map[[2]int32]int64{}, map[[2]int32]bool{}
	for i, from := range a.Source {
		if copyOf := [2]int32{a.Clone[i], from}; seen[copyOf] {
			t.Fatalf("request %d is twice in clone %d", from, a.Clone[i])
		} else {
			seen[copyOf] = true
		}
		key, by := [2]int32{a.Clone[i], session[from]}, a.ArrivalNS[i]-at[from]
		if was, known := moved[key]; known && was != by {
			t.Fatalf("session %d of clone %d was moved by %d ns and by %d", session[from], a.Clone[i], was, by)
		}
		moved[key] = by
	}
	return moved
}

// TestAmplifyKeepsSessions: each request once in each clone, all of a session moved alike, none far but to the other
// end, none beyond the ends, in loads with sessions as long as the load, too.
func TestAmplifyKeepsSessions(t *testing.T) {
	wraps := 0
	for seed := range uint64(40) {
		requests, sessions := 1+int(seed)*17, 1+int(seed)*int(seed)
		at, session := load(seed, requests, sessions, time.Duration(seed)*time.Minute)
		clones := 1 + int(seed%7)
		a := amplify(t, at, session, float64(clones), seed)
		must.Equal(t, len(a.Source), clones*requests, "%d requests %d times", requests, clones)
		span := at[len(at)-1]
		most := min(int64(maxShift), span/shiftShare) + 1
		for key, by := range shifted(t, a, at, session) {
			room, far := span-lasts(at, session, key[1]), max(by, -by)
			if far > most {
				wraps++
				far = (room - far%max(1, room)) % max(1, room)
			}
			if key[0] == 0 && by != 0 || far > most {
				t.Fatalf("session %d of clone %d was moved by %d ns; the most is %d, or that to the other end of %d", key[1], key[0], by, most, room)
			}
		}
		must.Equal(t, a.ArrivalNS[len(a.ArrivalNS)-1], span, "the load lasts")
	}
	if wraps < 100 {
		t.Errorf("only %d sessions came to the other end: the test says little", wraps)
	}
}

// lasts is from the first to the last request of a session.
func lasts(at []int64, session []int32, number int32) int64 {
	from, to := int64(-1), int64(0)
	for i, s := range session {
		if s == number && from < 0 {
			from = at[i]
		}
		if s == number {
			to = at[i]
		}
	}
	return to - from
}

// TestAmplifyMovesClonesApart: sessions that have the room are moved with their clone, and no two clones by nearly the
// same.
func TestAmplifyMovesClonesApart(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	at, session := alone(3, 400)
	for _, clones := range []int{2, 3, 4, 9, 32, 1000} {
		a := amplify(t, at, session, float64(clones), 5)
		count := map[[2]int64]int{}
		for key, by := range shifted(t, a, at, session) {
			count[[2]int64{int64(key[0]), by}]++
		}
		var shifts []int64
		for key, n := range count {
			if n > 300 {
				shifts = append(shifts, key[1])
			}
		}
		slices.Sort(shifts)
		must.Equal(t, len(shifts), clones)
		step := 2 * int64(maxShift) / int64(clones)
		for i := 1; i < clones; i++ {
			if gap := shifts[i] - shifts[i-1]; gap < step/4 || gap > 2*step {
				t.Errorf("%d clones: two are %v apart, want about %v", clones, time.Duration(gap), time.Duration(step))
			}
		}
	}
}

// TestAmplifyKeepsTheShape: a load that is even stays so up to both ends, and one that comes and goes does so as
// before.
func TestAmplifyKeepsTheShape(t *testing.T) {
	const perSecond, seconds, clones = 20, 900, 5
	for name, on := range map[string]func(second int) bool{
		"even":  func(int) bool { return true },
		"waves": func(second int) bool { return second/150%2 == 0 },
	} {
		var at []int64
		var session []int32
		for i := range perSecond * seconds {
			if on(i / perSecond) {
				at, session = append(at, int64(i)*int64(time.Second)/perSecond), append(session, int32(len(session)))
			}
		}
		a := amplify(t, at, session, clones, 1)
		got := make([]int, seconds+1)
		for _, ns := range a.ArrivalNS {
			got[ns/int64(time.Second)]++
		}
		for second := range seconds {
			steady := true // as far as clones are moved
			for near := max(0, second-46); near < min(seconds, second+47); near++ {
				steady = steady && on(near) == on(second)
			}
			if !steady {
				continue
			}
			least, most := 0, 0
			if on(second) {
				least, most = (perSecond-1)*clones, (perSecond+1)*clones
			}
			if got[second] < least || got[second] > most {
				t.Errorf("%s: %d requests in second %d, want %d to %d", name, got[second], second, least, most)
			}
		}
	}
}

// TestThinning: whole sessions, about the share of the requests, and every session as likely as any other.
func TestThinning(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	at, session := load(11, 3000, 700, time.Hour)
	for i := range 400 {
		session[i*7] = 0 // a long one
	}
	size := map[int32]int{}
	for _, s := range session {
		size[s]++
	}
	for _, share := range []float64{0.05, 0.3, 0.5, 0.9} {
		const seeds = 400
		times := map[int32]int{}
		for seed := range uint64(seeds) {
			a := amplify(t, at, session, share, seed)
			got := map[int32]int{}
			for i, from := range a.Source {
				got[session[from]]++
				must.Equal(t, a.Clone[i], 0, "what is left of a load is no clone of it")
			}
			for s, n := range got {
				times[s]++
				must.Equal(t, n, size[s], "requests of session %d", s)
			}
			if off := math.Abs(float64(len(a.Source)) - share*3000); off > 400+10 {
				t.Fatalf("share %v: %d of 3000 requests", share, len(a.Source))
			}
			shiftedThin(t, a, at)
		}
		mean, spread := share*seeds, 5*math.Sqrt(seeds*share*(1-share))
		for s := range size {
			expect.Near(t, float64(times[s]), mean, spread, "share %v: session %d was taken times of %d", share, s, seeds)
		}
	}
}

// TestAmplifyIsNested: a larger load has all requests of a smaller one; from once on at the same instants, below at the
// same times from each other.
func TestAmplifyIsNested(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	for seed := range uint64(20) {
		at, session := load(seed, 600, 150, 20*time.Minute)
		var before map[[2]int32]int64
		for _, factor := range []float64{0.01, 0.2, 0.21, 0.7, 0.99, 1, 1.02, 1.5, 1.97, 2, 2.4, 3, 4.5, 9, 9.1, 40} {
			a := amplify(t, at, session, factor, seed)
			now := map[[2]int32]int64{}
			for i, from := range a.Source {
				now[[2]int32{a.Clone[i], from}] = a.ArrivalNS[i]
			}
			by, moved := int64(0), false
			for request, was := range before {
				is, there := now[request]
				if !there {
					t.Fatalf("%v times lacks request %d of clone %d, which a smaller load has", factor, request[1], request[0])
				}
				if d := is - was; factor > 1 && d != 0 || moved && d != by {
					t.Fatalf("%v times has request %d of clone %d %d ns later than a smaller load", factor, request[1], request[0], d)
				} else {
					by, moved = d, true
				}
			}
			before = now
		}
	}
}

// shiftedThin: a thinned load is the recorded one from its first request on.
func shiftedThin(t *testing.T, a *Amplified, at []int64) {
	t.Helper()
	for i, from := range a.Source {
		must.Equal(t, a.ArrivalNS[i], at[from]-at[a.Source[0]], "request %d arrives at", from)
	}
}

func TestAmplifyFractions(t *testing.T) {
	at, session := alone(2, 5000)
	for factor, want := range map[float64]float64{1: 5000, 2.5: 12500, 1.25: 6250, 0.001: 5} {
		expect.Near(t, float64(len(amplify(t, at, session, factor, 0).Source)), want, 1, "%v times 5000 requests", factor)
	}
	expect.Equal(t, len(amplify(t, []int64{0, 5}, []int32{0, 0}, 1e-9, 0).Source), 2, "requests left of one session")
	same := amplify(t, at, session, 1, 8)
	if !slices.Equal(same.ArrivalNS, at) || slices.Max(same.Clone) != 0 || !slices.IsSorted(same.Source) {
		t.Error("once is another load")
	}
}

func TestAmplifyIsTheSameForASeed(t *testing.T) {
	at, session := load(4, 1000, 300, 10*time.Minute)
	a, b, c := amplify(t, at, session, 3.5, 1), amplify(t, at, session, 3.5, 1), amplify(t, at, session, 3.5, 2)
	if !slices.Equal(a.ArrivalNS, b.ArrivalNS) || !slices.Equal(a.Source, b.Source) || !slices.Equal(a.Clone, b.Clone) {
		t.Error("equal seeds, different loads")
	}
	if slices.Equal(a.ArrivalNS, c.ArrivalNS) {
		t.Error("different seeds, the same load")
	}
}

func TestAmplifyRefuses(t *testing.T) {
	for factor, want := range map[float64]string{0: "above 0", -1: "above 0", math.NaN(): "above 0", math.Inf(1): "above 0", 2e6: "at most", 1e6: "more than"} {
		expect.Refused(Amplify(make([]int64, 3000), make([]int32, 3000), factor, 0))(t, want, factor)
	}
}

func TestWrapped(t *testing.T) {
	for _, c := range []struct{ at, room, want int64 }{
		{5, 10, 5}, {0, 10, 0}, {10, 10, 10}, {-3, 10, 7}, {12, 10, 2}, {20, 10, 0}, {23, 10, 3}, {-13, 10, 7}, {7, 0, 0}, {-7, 0, 0}, {0, 0, 0},
		{math.MaxInt64 - 5, math.MaxInt64 - 10, 5},
	} {
		expect.Equal(t, wrapped(c.at, c.room), c.want, "%d in [0, %d]", c.at, c.room)
	}
}

func BenchmarkAmplify(b *testing.B) {
	at, session := load(1, 12_500, 7_000, time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Amplify(at, session, 32, 0); err != nil {
			b.Fatal(err)
		}
	}
}
