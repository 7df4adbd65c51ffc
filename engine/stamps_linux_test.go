package engine

import (
	"math"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// apart is how far two instants may seem out of order of which the kernel has one from its own clock: sched.Wall's
// tolerance, twice.
const apart = 20_000

func TestRunWithStamps(t *testing.T) {
	if err := wire.ProbeStamps(wire.Stamps{Receive: true, Send: true}); err != nil {
		t.Skip(err)
	}
	eachSender(t, testRunWithStamps)
}

func testRunWithStamps(t *testing.T, kind senderKind) {
	const n = 400
	w, s := equalWork(t, n, openPlan)
	k := new(sink)
	r := newRun(t, kind, w, k)
	r.useStamps(wire.Stamps{Receive: true, Send: true})
	found := do(t, s, r).Client
	departed, acked := 0, 0
	for _, rec := range k.records {
		if rec.Outcome != record.OK || rec.HeadersNS < rec.SentNS || rec.FirstTokenNS < rec.HeadersNS || rec.DoneNS < rec.LastTokenNS {
			t.Fatalf("%+v", rec)
		}
		if rec.DepartedNS != record.None {
			departed++
			if rec.DepartedNS < rec.SentNS-apart {
				t.Errorf("departed at %d, sent at %d", rec.DepartedNS, rec.SentNS)
			}
		}
		if rec.AckedNS != record.None {
			acked++
			if rec.AckedNS < rec.DepartedNS-apart {
				t.Errorf("departed at %d, acked at %d", rec.DepartedNS, rec.AckedNS)
			}
		}
	}
	if f := found.Stamps; len(k.records) != n || departed == 0 || acked == 0 || f.Reads+f.Unstamped+f.Dropped < n || f.Reads == 0 || found.ReceiveLagUS == nil || r.readLag.lag.Count() != f.Reads {
		t.Fatalf("%d records, %d departed, %d acked, %+v", len(k.records), departed, acked, f)
	}
	if us, ns := found.ReceiveLagUS.P99, r.readLag.lag.QuantileNS(990); math.Abs(us*1e3-float64(ns)) > 0.5 {
		t.Errorf("a receive lag of %g µs, want %d ns in µs", us, ns)
	}
}
