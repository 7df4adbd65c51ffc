package probe

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// warmUpAtOnce is how many requests of a warm-up are in flight by default.
const warmUpAtOnce = 16

// warmUpFrom is how many numbers of prompts are left to probes.
const warmUpFrom = 1 << 32

// The lengths in a warm-up if those of verbatim content are not known.
const (
	bytesPerToken    = 4 // about as many as English text has
	unrecordedOutput = 16
)

// WarmUp sends n requests with the sizes of the work's first requests, to all addresses in turn. At most atOnce (0 = 16)
// are in flight. It returns when all have been answered. Their prompts share no prefix with each other or with the
// work's. If the work has fewer requests, its sizes are repeated.
func (b *Prober) WarmUp(ctx context.Context, w *workload.Work, source prompt.Source, n, atOnce int, salt string) error {
	type place struct {
		target *workload.Target
		addr   netip.AddrPort
	}
	var places []place
	for i := range w.Targets {
		for _, addr := range w.Targets[i].Endpoints {
			places = append(places, place{&w.Targets[i], addr})
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var senders sync.WaitGroup
	for range min(cmp.Or(atOnce, warmUpAtOnce), n) {
		senders.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				at, shape := places[i%len(places)], i%w.Requests()
				tokens, output := w.PromptTokens(shape), int(w.Trace.OutputTokens[shape])
				if !w.Made(shape) && w.Trace.InputTokens[shape] <= 0 {
					tokens = max(1, len(w.Trace.Verbatim(shape).Content)/bytesPerToken)
				}
				if output <= 0 {
					output = unrecordedOutput
				}
				text := source.Append(nil, prompt.Spec{Tokens: tokens, Unique: probeDomain | (b.Nonce + warmUpFrom + uint64(i))})
				if _, err := b.complete(ctx, at.target, at.addr, text, salt, output); err != nil {
					cancel(fmt.Errorf("warm-up request %d of %d: %w", i+1, n, err))
				}
			}
		})
	}
	senders.Wait()
	return context.Cause(ctx)
}
