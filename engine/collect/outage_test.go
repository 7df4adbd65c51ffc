package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// sentAt is a request that was sent then and, if ok, had its first token ttftNS later.
func sentAt(ns int64, o record.Outcome, ttftNS int64) *record.Record {
	var r record.Record
	r.Clear()
	r.Row, r.PlannedNS, r.SentNS, r.Outcome = 0, ns, ns, o
	switch o {
	case record.OK:
		r.FirstTokenNS, r.LastTokenNS, r.DoneNS = ns+ttftNS, ns+ttftNS+5e6, ns+ttftNS+5e6
	case record.ConnectError:
		r.SentNS, r.Error = record.None, "connection refused"
	default:
		r.Error = "connection reset"
	}
	return &r
}

const ms, s = int64(1e6), int64(1e9)

// TestOutage: one of three targets dies at 3 s and is back at 6 s.
func TestOutage(t *testing.T) {
	c := NewCollector([]string{"http://a", "http://b", "http://c"})
	var list []*record.Record
	var targets []int
	for i := range int64(900) {
		at, target := i*10*ms, int(i%3)
		r := sentAt(at, record.OK, 20*ms)
		switch {
		case target == 1 && at >= 29*s/10 && at < 3*s: // in flight when it died, and had brought a token
			r = sentAt(at, record.Truncated, 0)
			r.FirstTokenNS, r.LastTokenNS = at+20*ms, 3*s+at/1000
		case target == 1 && at >= 3*s && at < 6*s:
			r = sentAt(at, record.ConnectError, 0)
		case target != 1 && at >= 3*s && at < 6*s:
			r = sentAt(at, record.OK, 50*ms)
		case target != 1 && at >= 6*s:
			r = sentAt(at, record.OK, 90*ms)
		}
		list, targets = append(list, r), append(targets, target)
	}
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(len(list)) { // records come in order of completion
		c.Add(list[i], targets[i])
	}
	sum := planned(c, 900)
	must.Equal(t, len(sum.Outages), 1, "%+v", sum.Outages)
	o := sum.Outages[0]
	for own, told := range map[int64]int{o.Failed: 0, o.Failed - 1: 1} { // requests that this machine had no descriptor for
		s := c.Summary(metrics.Summary{Connections: metrics.Connections{NoResources: own}}, Probed{})
		expect.Equal(t, len(s.Outages), told, "%d of %d failures are its own", own, o.Failed)
	}
	first := list[slices.IndexFunc(list, func(r *record.Record) bool { return r.Outcome == record.Truncated })]
	if o.Target != "http://b" || o.Address != "" || math.Abs(o.FromS-float64(first.LastTokenNS)/1e9) > 1e-9 || *o.ToS != 6.01 || o.Requests != o.Failed || o.Failed != 103 || o.Outcome != "connect_error" || o.Error != "connection refused" {
		t.Errorf("%+v, first cut at %d", o, first.LastTokenNS)
	}
	if *o.OthersBeforeMS != 20 || *o.OthersDuringMS != 50 {
		t.Errorf("the others: %v before, %v during", *o.OthersBeforeMS, *o.OthersDuringMS)
	}
	want := `http://b failed from 3.00 s to 6.01 s (103 of 103 requests, most by connect_error, "connection refused"); the others' TTFT p99 was 20.0 ms before and 50.0 ms meanwhile`
	if !slices.Contains(sum.Notes, want) {
		t.Errorf("notes %q, want %q", sum.Notes, want)
	}
}

// TestHangFromItsBegin: a server that fell silent failed from then on, and not only once the first limit was over.
func TestHangFromItsBegin(t *testing.T) {
	c := NewCollector([]string{"http://a", "http://b"})
	for i := range int64(400) {
		at := i * 10 * ms
		r := sentAt(at, record.OK, 20*ms)
		if i%2 == 1 && at >= 2*s {
			r = sentAt(at, record.Timeout, 0)
			r.DoneNS = at + 3*s
		}
		c.Add(r, int(i%2))
	}
	sum := planned(c, 400)
	must.Equal(t, len(sum.Outages), 1)
	// the last answer is that of 1.99 s
	expect.Equal(t, sum.Outages[0].FromS, 2.015)
	expect.Equal(t, sum.Outages[0].Failed, 100)
}

// TestTooBusyToAccept: a server that was too slow for new connections was not shut down for sure.
func TestTooBusyToAccept(t *testing.T) {
	o := metrics.Outage{Outcome: "connect_error", Error: "dial tcp 10.0.0.1:80: i/o timeout", FinishedAfter: 273}
	expect.Contains(t, o.Words(), "; it was shut down, or too busy for new connections: after it refused the first request 273 of its answers ended well")
}

// TestFate: the ends of the requests in flight distinguish a server that was shut down from one that died.
func TestFate(t *testing.T) {
	for _, c := range []struct {
		name                            string
		refuses                         bool
		finished, givenUp, open, cutOff int64
		want                            string // "" = neither
	}{
		{"drained", true, 12, 0, 0, 0, "it was shut down, not killed: after it refused the first request 12 of its answers ended well, it gave 0 up, and 0 were cut off"},
		{"gave all up", true, 0, 12, 0, 0, "it was shut down, not killed"},
		{"left all open, as vLLM 0.32 does", true, 0, 0, 12, 0, "it gave 12 up"},
		{"drained, and refused with empty answers, as vLLM 0.32 does", true, 12, 0, -12, 0, "12 of its answers ended well, it gave 0 up, and 0 were cut off"},
		{"its engine died, or it was shut down, and it said an error", true, 0, 0, 0, -12, "its engine failed or it was shut down: it ended 12 of its answers with an error of its own, and 0 were cut off"},
		{"drained for too short a time", true, 12, 0, 0, 3, "and 3 were cut off"},
		{"killed", true, 0, 0, 0, 12, "it died or was killed: 12 of its answers were cut off"},
		{"nothing in flight", true, 0, 0, 0, 0, ""},
		{"refuses nobody", false, 0, 12, 0, 0, ""},
	} {
		m := NewCollector([]string{"http://a"})
		for i := range int64(200) {
			m.Add(sentAt(i*10*ms, record.OK, ms), 0)
		}
		late := func(n int64, change func(r *record.Record)) {
			for i := range n {
				r := sentAt(1900*ms+i, record.OK, 500*ms)
				r.HeadersNS = r.SentNS + ms
				change(r)
				m.Add(r, 0)
			}
		}
		late(c.finished, func(*record.Record) {})
		late(c.givenUp, func(r *record.Record) { r.Outcome, r.FinishReason = record.StreamError, "abort" })
		late(-c.open, func(r *record.Record) { // sent after the first refusal
			r.PlannedNS, r.SentNS, r.FirstTokenNS, r.LastTokenNS = r.SentNS+ms, r.SentNS+ms, record.None, record.None
			r.Outcome, r.HeadersNS, r.DoneNS = record.BadResponse, r.SentNS+ms, r.SentNS+2*ms
		})
		late(-c.cutOff, func(r *record.Record) { r.Outcome, r.DoneNS = record.StreamError, 2*s })
		late(c.open, func(r *record.Record) { r.Outcome, r.LastTokenNS, r.DoneNS = record.Timeout, 2*s, record.None })
		late(c.cutOff, func(r *record.Record) { r.Outcome, r.LastTokenNS = record.Truncated, 2*s })
		for i := range int64(100) {
			r := sentAt(2*s+i*10*ms, record.ConnectError, 0)
			if !c.refuses {
				r = sentAt(2*s+i*10*ms, record.Reset, 0)
			}
			m.Add(r, 0)
		}
		sum := planned(m, 400)
		must.Equal(t, len(sum.Outages), 1, "%s: %+v", c.name, sum.Outages)
		words := sum.Outages[0].Words()
		if got := words[strings.LastIndex(words, ")")+1:]; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q; %+v", c.name, got, c.want, sum.Outages[0])
		}
	}
}

// TestOutageOfOneAddress of a name with several, and one that never lived.
func TestOutageOfOneAddress(t *testing.T) {
	c := NewCollector([]string{"http://name"})
	for i := range int64(100) {
		r := sentAt(i*ms, record.OK, ms)
		r.Endpoint = "10.0.0.1:8000"
		if i%2 == 0 {
			r = sentAt(i*ms, record.ConnectError, 0)
			r.Endpoint = "10.0.0.2:8000"
		}
		c.Add(r, 0)
	}
	sum := planned(c, 100)
	want := `http://name at 10.0.0.2:8000 failed from the start on (50 of 50 requests, all by connect_error, "connection refused"); the others' TTFT p99 was 1.00 ms meanwhile`
	if !slices.Contains(sum.Notes, want) {
		t.Errorf("%q; want %q", sum.Notes, want)
	}
}

// TestNoOutage: failures that are spread over a run, a few in a row, and what a stopped run leaves unsent.
func TestNoOutage(t *testing.T) {
	for name, outcome := range map[string]func(i int, rng *rand.Rand) record.Outcome{
		"none": func(int, *rand.Rand) record.Outcome { return record.OK },
		"one in ten": func(_ int, rng *rand.Rand) record.Outcome {
			return [2]record.Outcome{record.OK, record.Reset}[rng.IntN(10)/9]
		},
		"one in two": func(_ int, rng *rand.Rand) record.Outcome {
			return [2]record.Outcome{record.OK, record.Reset}[rng.IntN(2)]
		},
		"four in row": func(i int, _ *rand.Rand) record.Outcome {
			return [2]record.Outcome{record.OK, record.Reset}[btoi(i >= 500 && i < 504)]
		},
		"stopped": func(i int, _ *rand.Rand) record.Outcome {
			return [2]record.Outcome{record.OK, record.NotSent}[btoi(i >= 500)]
		},
	} {
		for seed := range uint64(3) {
			rng := rand.New(rand.NewPCG(seed, 7))
			c := NewCollector([]string{"http://a", "http://b"})
			for i := range 2000 {
				c.Add(sentAt(int64(i)*ms, outcome(i, rng), ms), i%2)
			}
			if sum := planned(c, 2000); len(sum.Outages) > 0 {
				t.Errorf("%s: %+v", name, sum.Outages)
			}
		}
	}
}

// TestManyOutages: the notes name a few, the summary all.
func TestManyOutages(t *testing.T) {
	var urls []string
	for i := range 12 {
		urls = append(urls, fmt.Sprintf("http://%02d", i))
	}
	c := NewCollector(urls)
	for i := range 12 * 20 {
		c.Add(sentAt(int64(i)*ms, record.ConnectError, 0), i%12)
	}
	sum := planned(c, 240)
	if notes := strings.Join(sum.Notes, "\n"); len(sum.Outages) != 12 || strings.Count(notes, "failed from the start on") != mostOutages || !strings.Contains(notes, "8 more failed for a time") {
		t.Errorf("%d outages, notes:\n%s", len(sum.Outages), notes)
	}
}
