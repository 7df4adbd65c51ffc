package setup

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// Amplify is by how much a load is multiplied; 1 leaves it alone.
type Amplify float64

// Apply is the trace K times over, and what that did to its load: nil where it is the trace itself.
func (a Amplify) Apply(t *trace.Trace, seed uint64) (*trace.Trace, *metrics.Amplify, error) {
	out, did, err := a.Copies(t, seed)
	if did != nil {
		did.After = inspect.Load(out)
	}
	return out, did, err
}

// Copies is Apply without the load after it.
func (a Amplify) Copies(t *trace.Trace, seed uint64) (*trace.Trace, *metrics.Amplify, error) {
	if a == 1 || t.Len() == 0 {
		return t, nil, nil
	}
	if err := sched.CheckAmplify(float64(a), t.Len()); err != nil {
		return nil, nil, fmt.Errorf("--amplify: %w", err)
	}
	if free, err := freeAllowance(0); err == nil {
		if err := a.refuse(t, free, float64(a), peakPerRequest, peakPerBlock); err != nil {
			return nil, nil, err
		}
	}
	of := t.Conversations()
	copies, err := sched.Amplify(instantsOf(t), of.Session, float64(a), seed)
	if err != nil {
		return nil, nil, fmt.Errorf("--amplify: %w", err)
	}
	out, err := t.Copies(copies.Source, copies.Clone, copies.ArrivalNS, of.Shared)
	if err != nil {
		return nil, nil, fmt.Errorf("--amplify %g: %s: %w", float64(a), t.Name, err)
	}
	return out, &metrics.Amplify{
		Factor:       float64(a),
		Seed:         seed,
		Sessions:     int64(of.Sessions),
		Jobs:         t.Job != nil,
		Inferred:     of.Inferred,
		SharedBlocks: int64(of.SharedBlocks),
		Before:       inspect.Load(t),
	}, nil
}

// What more requests take, in bytes: what the trace holds besides, and the peak. That is of describing the amplified
// load, with the garbage of what was made before. It was measured on samples, 500 to 20,000 times: 62 a repeated
// request, 80 an amplified one. Each block id takes 85 to 97 more in a replay, and 118 to 144 in inspect.
const (
	heldPerRequest = 60
	heldPerBlock   = 8
	peakPerRequest = 100
	peakPerBlock   = 120
)

// refuse returns an error if a load takes more than the memory allowed: so many times what each request and block id
// takes, in bytes.
func (a Amplify) refuse(t *trace.Trace, allowed allowance, times, perRequest, perBlock float64) error {
	bytes := times * (perRequest*float64(t.Len()) + perBlock*float64(t.BlockRefs()))
	return allowed.refuse("--amplify", float64(a), float64(a)*float64(t.Len()), bytes)
}

// instantsOf is when requests arrive. Where no row says, their places stand for it, so that clones are mixed.
func instantsOf(t *trace.Trace) []int64 {
	if !t.Untimed {
		return t.ArrivalNS
	}
	places := make([]int64, t.Len())
	for i := range places {
		places[i] = int64(i) * int64(time.Second)
	}
	return places
}
