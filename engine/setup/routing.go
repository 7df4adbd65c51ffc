package setup

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// The values of Options.Route.
const (
	RouteRoundRobin    = route.RoundRobinName
	RouteRandom        = route.RandomName
	RouteLeastInFlight = "least-inflight"
	RouteSession       = route.SessionName
	RoutePrefix        = route.PrefixName
)

// routesLate reports whether requests get their places when they leave: answers tell it, or targets come and go.
func (o *Options) routesLate() bool { return o.Route == RouteLeastInFlight || o.WatchTargets != "" }

// Routes lists the values of Options.Route, the default first.
func Routes() []string {
	return []string{RouteRoundRobin, RouteRandom, RouteLeastInFlight, RouteSession, RoutePrefix}
}

// route decides which instance gets which request.
func (p *Prepared) route() error {
	targets := make([]route.Target, len(p.Targets))
	for i, t := range p.Targets {
		targets[i] = route.Target{Endpoints: len(t.Endpoints), Weight: 1}
		if i < len(p.o.Weights) {
			targets[i].Weight = p.o.Weights[i]
		}
	}
	p.Routing = workload.Routing{
		Router:  p.o.Route,
		Targets: targets,
		Seed:    p.o.Seed,
		Bound:   p.o.LoadBound,
		Assumed: p.o.Assumed,
		Late:    p.o.routesLate(),
	}
	if p.Routing.Late {
		if err := p.CheckLate(); err != nil {
			return fmt.Errorf("--route %s: %w", p.o.Route, err)
		}
	}
	p.Places = p.Placed(targets, nil)
	if p.o.Route == RoutePrefix {
		p.noteIdle()
	}
	p.noteIncomparable()
	return nil
}

// noteIdle notes which servers the prefix-aware router leaves without a request. Where prompts begin alike, as few as
// fit within the bound do all the work.
func (p *Prepared) noteIdle() {
	busy := make([]bool, len(p.Targets))
	for _, p := range p.Places {
		busy[p.Target] = true
	}
	var idle []string
	for i, t := range p.Targets {
		if !busy[i] {
			idle = append(idle, t.URL)
		}
	}
	if len(idle) > 0 && p.Requests() >= len(busy) {
		p.note(
			"idle_targets",
			"--route %s gives no request to %d of %d targets: %s; fewer can do all the work (--load-bound 1 spreads "+
				"it)",
			RoutePrefix, len(idle), len(busy), strings.Join(idle, ", "),
		)
	}
}

// noteIncomparable notes why routers are not compared, or not exactly.
func (p *Prepared) noteIncomparable() {
	sizes := map[int]bool{}
	servers := 0
	for _, t := range p.Targets {
		for _, addr := range t.Endpoints {
			sizes[p.Caches[addr].BlockTokens] = true
			servers++
		}
	}
	switch {
	case servers < 2 || p.o.DryRun:
	case p.verbatims.all:
		p.note("routers_not_compared",
			"routers are not compared: only the servers can count the tokens that verbatim prompts share")
	case len(sizes) > 1:
		p.note("routers_of_one_block_size", "routers are compared as if all servers had the blocks of the first")
	}
}
