package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// The values of --route.
const (
	routeRoundRobin    = "round-robin"
	routeRandom        = "random"
	routeLeastInFlight = "least-inflight"
	routeSession       = "session"
	routePrefix        = "prefix"
)

func routes() []string {
	return []string{routeRoundRobin, routeRandom, routeLeastInFlight, routeSession, routePrefix}
}

// checkRoute refuses what no router can mean.
func (o *options) checkRoute() error {
	switch {
	case !slices.Contains(routes(), o.route):
		return fmt.Errorf("--route %q: want one of %s", o.route, strings.Join(routes(), ", "))
	case o.loadBound != 0 && !(o.loadBound >= 1) || math.IsInf(o.loadBound, 0):
		return fmt.Errorf("--load-bound %v: want at least 1, such as %v, or 0 for none", o.loadBound, route.DefaultBound)
	case o.pacing.given("load-bound") && o.route != routePrefix:
		return fmt.Errorf("--load-bound is about --route %s", routePrefix)
	case o.route == routeLeastInFlight && o.sessions.past == historyLive:
		return fmt.Errorf("--route %s with --history %s: a body that is made of answers is made for the server that it goes to; use another router", o.route, historyLive)
	}
	return nil
}

// checkRouted refuses a router that the trace has nothing for.
func (r *replay) checkRouted() error {
	if r.o.route == routeSession && r.trace.Session == nil {
		return errors.New("--route session: the trace has no conversations")
	}
	return nil
}

// readTargets adds the servers that a file names to those of --url, with their weights.
func (o *options) readTargets() error {
	o.weights = slices.Repeat([]float64{1}, len(o.urls))
	if o.targetsFile == "" {
		return nil
	}
	file, err := os.Open(o.targetsFile)
	if err != nil {
		return fmt.Errorf("--targets: %w", err)
	}
	defer file.Close() // nothing was written, so its error says nothing
	lines, number := bufio.NewScanner(file), 0
	for lines.Scan() {
		number++
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		weight := 1.0
		if len(fields) > 1 {
			weight, err = strconv.ParseFloat(fields[1], 64)
		}
		if err != nil || len(fields) > 2 || !(weight > 0) || math.IsInf(weight, 0) {
			return fmt.Errorf("--targets %s:%d: want a URL and perhaps a weight above 0 on each line", o.targetsFile, number)
		}
		o.urls, o.weights = append(o.urls, fields[0]), append(o.weights, weight)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("--targets %s:%d: %w", o.targetsFile, number+1, err)
	}
	if len(o.urls) == 0 {
		return fmt.Errorf("--targets %s: no server in it; want a URL on each line", o.targetsFile)
	}
	return nil
}

// route decides which instance gets which request.
func (r *replay) route() error {
	targets := make([]route.Target, len(r.work.Targets))
	for i, t := range r.work.Targets {
		targets[i] = route.Target{Endpoints: len(t.Endpoints), Weight: 1}
		if i < len(r.o.weights) {
			targets[i].Weight = r.o.weights[i]
		}
	}
	r.work.Routing = workload.Routing{
		Targets: targets, Seed: r.o.seed, Bound: r.o.loadBound, Assumed: r.o.sessions.taken, LeastInFlight: r.o.route == routeLeastInFlight,
	}
	n := r.work.Requests()
	switch r.o.route {
	case routePrefix:
		r.work.RouteByPrefix()
		r.noteIdle()
	case routeLeastInFlight:
		if err := r.work.CheckLeastInFlight(); err != nil {
			return fmt.Errorf("--route %s: %w", routeLeastInFlight, err)
		}
		r.work.Places = route.RoundRobin(n, targets)
	case routeRandom:
		r.work.Places = route.Random(n, targets, r.o.seed)
	case routeSession:
		r.work.Places = route.BySession(r.trace.Session[:n], targets, r.o.seed)
	default:
		r.work.Places = route.RoundRobin(n, targets)
	}
	r.noteIncomparable()
	return nil
}

// noteIdle says which servers the prefix-aware router leaves without a request. Where prompts begin alike, as few as fit within the
// bound do all the work.
func (r *replay) noteIdle() {
	busy := make([]bool, len(r.work.Targets))
	for _, p := range r.work.Places {
		busy[p.Target] = true
	}
	var idle []string
	for i, t := range r.work.Targets {
		if !busy[i] {
			idle = append(idle, t.URL)
		}
	}
	switch {
	case len(idle) == 0 || r.work.Requests() < len(busy):
	case r.o.loadBound == 0:
		r.note("--route %s without a bound gives no request to %d of %d targets: %s", routePrefix, len(idle), len(busy), strings.Join(idle, ", "))
	default:
		r.note("--route %s gives no request to %d of %d targets: %s; within %g times the mean load fewer can do all the work (--load-bound 1 spreads it)",
			routePrefix, len(idle), len(busy), strings.Join(idle, ", "), r.o.loadBound)
	}
}

// noteIncomparable says why routers are not compared, or not exactly.
func (r *replay) noteIncomparable() {
	sizes, servers := map[int]bool{}, 0
	for _, t := range r.work.Targets {
		for _, addr := range t.Endpoints {
			sizes[r.work.Caches[addr].BlockTokens] = true
			servers++
		}
	}
	switch {
	case servers < 2 || r.o.dryRun:
	case r.verbatims.all:
		r.note("routers are not compared: only the servers can count the tokens that verbatim prompts share")
	case len(sizes) > 1:
		r.note("routers are compared as if all servers had the blocks of the first")
	}
}
