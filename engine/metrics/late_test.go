package metrics

import (
	"math/rand/v2"
	"reflect"
	"sort"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

type request struct{ planned, sent int64 }

func recordsOf(requests []request) []record.Record {
	records := make([]record.Record, len(requests))
	for i, r := range requests {
		records[i].PlannedNS, records[i].SentNS = r.planned, r.sent
	}
	return records
}

func of(n int64, others float64) *Overlap { return &Overlap{n, &others} }

// TestLate: intervals of 100 ms. The host took 30 ms of the second and 1 ms of the fourth, the sending thread waited 4 ms in
// the third.
func TestLate(t *testing.T) {
	const ms = 1_000_000
	var in [6]Interval
	for i := range in {
		in[i] = Interval{EndNS: int64(i+1) * 100 * ms, CapacityNS: 200 * ms}
	}
	in[1].LostNS[Stolen], in[3].LostNS[Stolen], in[2].LostNS[Waited] = 30*ms, 1*ms, 4*ms
	for _, tt := range []struct {
		name     string
		requests []request
		want     Late
	}{
		{"none", nil, Late{}},
		{"none late", []request{{0, 5 * ms}, {10 * ms, 10 * ms}}, Late{}},
		{"late at the limit and above", []request{{150 * ms, 155 * ms}, {150 * ms, 155*ms + 1}},
			Late{Requests: 1, Stolen: of(1, 1), Throttled: of(0, 0), Waited: of(0, 0)}},
		{"not sent", []request{{150 * ms, record.None}, {record.None, 160 * ms}}, Late{}},
		{"no punctual one to compare with", []request{{120 * ms, 130 * ms}},
			Late{Requests: 1, Stolen: &Overlap{Requests: 1}, Throttled: &Overlap{}, Waited: &Overlap{}}},
		{"half of the lateness is enough", []request{{110 * ms, 170 * ms}},
			Late{Requests: 1, Stolen: &Overlap{Requests: 1}, Throttled: &Overlap{}, Waited: &Overlap{}}},
		{"less than half is not", []request{{110 * ms, 170*ms + 1}},
			Late{Requests: 1, Stolen: &Overlap{}, Throttled: &Overlap{}, Waited: &Overlap{}}},
		{"stolen before its instant", []request{{210 * ms, 220 * ms}},
			Late{Requests: 1, Stolen: &Overlap{}, Throttled: &Overlap{}, Waited: &Overlap{}}},
		{"booked a tick later", []request{{80 * ms, 91 * ms}},
			Late{Requests: 1, Stolen: &Overlap{Requests: 1}, Throttled: &Overlap{}, Waited: &Overlap{}}},
		{"left more than a tick before", []request{{80 * ms, 90 * ms}},
			Late{Requests: 1, Stolen: &Overlap{}, Throttled: &Overlap{}, Waited: &Overlap{}}},
		{"two causes for one", []request{{195 * ms, 203 * ms}},
			Late{Requests: 1, Stolen: &Overlap{Requests: 1}, Throttled: &Overlap{}, Waited: &Overlap{Requests: 1}}},
		{"punctual ones are asked for the typical lateness", []request{{110 * ms, 118 * ms}, {220 * ms, 220 * ms}, {320 * ms, 320 * ms}, {150 * ms, 150 * ms}, {450 * ms, 450 * ms}},
			Late{Requests: 1, Stolen: of(1, 0.25), Throttled: of(0, 0), Waited: of(0, 0.25)}},
		{"after the last interval", []request{{700 * ms, 710 * ms}},
			Late{Requests: 1, Stolen: &Overlap{}, Throttled: &Overlap{}, Waited: &Overlap{}}},
	} {
		if got := lossOf(0, in[:]...).Late(5*ms, recordsOf(tt.requests)); !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, dump(got), dump(tt.want))
		}
	}
}

func TestLateOfWhatIsUnknown(t *testing.T) {
	line := lossOf(0, Interval{EndNS: 100})
	line.Known = [Causes]bool{Waited: true}
	got := line.Late(5, recordsOf([]request{{10, 30}}))
	if want := (Late{Requests: 1, Waited: &Overlap{}}); !reflect.DeepEqual(*got, want) {
		t.Errorf("got %s, want %s", dump(got), dump(want))
	}
}

// TestLateAgainstAWalk compares with requests and intervals looked at one by one.
func TestLateAgainstAWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	found := 0
	for range 300 {
		line := randomLoss(rnd, rnd.IntN(60))
		requests := make([]request, rnd.IntN(80))
		for i := range requests {
			requests[i].planned = rnd.Int64N(5e9)
			requests[i].sent = requests[i].planned + int64(rnd.ExpFloat64()*8e6)
			if rnd.IntN(20) == 0 {
				requests[i].sent = record.None
			}
		}
		const limit = 10_000_000
		var late []int
		for _, r := range requests {
			if r.sent != record.None && r.sent-r.planned > limit {
				late = append(late, int(r.sent-r.planned))
			}
		}
		want := Late{Requests: int64(len(late))}
		if len(late) > 0 {
			sort.Ints(late)
			for c, to := range []**Overlap{&want.Stolen, &want.Throttled, &want.Waited} {
				var met, others, punctual float64
				for _, r := range requests {
					switch d := r.sent - r.planned; {
					case r.sent == record.None:
					case d > limit:
						if 2*line.lostByHand(Cause(c), r.planned, r.sent+10_000_000) >= d {
							met++
						}
					default:
						punctual++
						if typical := int64(late[len(late)/2]); 2*line.lostByHand(Cause(c), r.planned, r.planned+typical+10_000_000) >= typical {
							others++
						}
					}
				}
				*to = &Overlap{Requests: int64(met)}
				if punctual > 0 {
					share := others / punctual
					(*to).Others = &share
				}
				found += int(met)
			}
		}
		if got := line.Late(limit, recordsOf(requests)); !reflect.DeepEqual(*got, want) {
			t.Fatalf("got %s\nwant %s", dump(got), dump(want))
		}
	}
	if found < 1000 {
		t.Errorf("only %d late requests met a cause: the test proves little", found)
	}
}
