package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
)

// allowance is how much memory may be taken, and where that limit comes from.
type allowance struct {
	bytes  int64
	origin string
}

// DefaultMemoryShare of the free memory may be taken: the rest is for sockets, results and the machine.
const DefaultMemoryShare = 0.8

// What a run takes besides its requests, in bytes. Both processes with their threads, tables and histograms took 55 MB:
// conversation trace at 60 times its speed, 1,500 in flight, 2 cores. Each request took 1.0 kB live, which garbage
// doubles.
const (
	keptForRun        = 64 << 20
	keptForRequest    = 2 << 10
	keptForConnection = 32 << 10
)

// A closed loop has no planned times, so its requests need not all be built before the start. There is room for 0.2 s
// at 50,000 requests/s of 0.6 kB, and for several times those in flight.
const (
	closedWindow  = 6 << 20
	inFlightAhead = 4
	leastAhead    = 8
)

// freeAllowance returns what may be taken without --max-memory, after kept bytes are taken for all else.
func freeAllowance(kept int64) (allowance, error) {
	free, of, err := host.FreeMemory()
	return allowance{
		int64(DefaultMemoryShare * float64(max(0, free-kept))),
		fmt.Sprintf("%d %% of %s", int(100*DefaultMemoryShare), of),
	}, err
}

// refuse returns an error if the requests that a flag asks for would not fit.
func (a allowance) refuse(flag string, value any, requests, bytes float64) error {
	if bytes <= float64(a.bytes) {
		return nil
	}
	return fmt.Errorf(
		"%s %v: %s requests would take about %s, more than the %s allowed (%s); use a smaller %s, or take "+
			"fewer rows with --limit or --from/--to",
		flag, value, format.Count(int64(requests)), format.Bytes(int64(bytes)), format.Bytes(a.bytes), a.origin, flag)
}

func (p *Prepared) checkMemory(ctx context.Context) error {
	connections := int64(p.DescriptorsNeeded() - host.DescriptorsBesides)
	kept := keptForRun + int64(p.Requests())*keptForRequest + connections*keptForConnection
	allowed, err := freeAllowance(kept)
	if p.o.MaxMemory > 0 {
		allowed = allowance{p.o.MaxMemory, "--max-memory"}
		err = nil
	}
	if err != nil {
		p.note("memory_unknown", "free memory is unknown (%v); give --max-memory to bound the memory of requests", err)
		return nil
	}
	if p.passes > 1 && !p.Plan.Open() && allowed.bytes > largeLoad {
		allowed = allowance{largeLoad, "most passes of --until may never begin"}
	}
	window := int64(p.Prebuilt.Largest()) * int64(max(leastAhead, inFlightAhead*p.Plan.Concurrency))
	window = max(window, closedWindow)
	if !p.Plan.Open() && p.Plan.Dependencies == nil && allowed.bytes > window {
		allowed = allowance{window, "enough of a closed loop at a time"}
	} else if p.Prebuilt.Held() > allowed.bytes {
		p.Prebuilt.ShareFor(ctx, allowed.bytes)
	}
	need := p.Prebuilt.Held()
	if free, of, err := host.FreeMemory(); err == nil && p.o.MaxMemory > 0 && min(need, allowed.bytes)+kept > free {
		p.note(
			"memory_short",
			"--max-memory %s and about %s that the run takes besides are more than %s, %s: the run may be killed",
			format.Bytes(allowed.bytes), format.Bytes(kept), format.Bytes(free), of,
		)
	}
	if need > allowed.bytes {
		p.detail(
			"      more than the %s allowed (%s): requests are built during the run, each before it is to leave",
			format.Bytes(allowed.bytes), allowed.origin,
		)
		if err := p.Prebuilt.UseRing(allowed.bytes); err != nil {
			return fmt.Errorf("%w (%s, and about %s for the run besides)", err, allowed.origin, format.Bytes(kept))
		}
		return nil
	}
	once := ""
	if need < p.Prebuilt.Bytes() {
		once = ", blocks that prompts share held once"
	}
	p.detail(
		"      memory for them: %s of %s allowed (%s)%s",
		format.Bytes(need), format.Bytes(allowed.bytes), allowed.origin, once,
	)
	return nil
}

// longAnswer is a response time beyond which a run that lacks descriptors is no surprise.
const longAnswer = 2 * time.Second

// DescriptorsNeeded is room for the requests in flight if each took longAnswer.
func (p *Prepared) DescriptorsNeeded() int {
	most := p.Plan.PeakWithin(longAnswer)
	if limit := p.Plan.Cap; limit > 0 {
		most = min(most, limit)
	}
	return host.DescriptorsBesides + most
}
