// Package workloadtest makes samples of workload.Work for tests.
//
// The package is not an API: any release may change it.
package workloadtest

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// Spaced are n instants at a steady rate.
func Spaced(n int, rate float64) []int64 {
	at, err := sched.Arrivals{Rate: sched.Steady(rate), Process: sched.Constant}.Instants(n)
	if err != nil {
		panic(err)
	}
	return at
}

// Work is a trace of n rows over two targets of one and two addresses.
func Work(t testing.TB, n int) *workload.Work {
	made, err := trace.Generate(
		trace.Gen{
			ArrivalNS:    Spaced(n, 100),
			InputTokens:  trace.Range{Min: 1, Max: 3000},
			OutputTokens: trace.Range{Min: 1, Max: 99},
			Reuse:        0.4,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := sched.FromTrace(made.ArrivalNS, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := netip.MustParseAddrPort("127.0.0.1:1")
	b := netip.MustParseAddrPort("127.0.0.1:2")
	targets := []workload.Target{
		{URL: "http://one:1", Host: "one:1", Path: "/v1/completions", Endpoints: []netip.AddrPort{a}},
		{URL: "http://two:2", Host: "two:2", Path: "/v1/completions", Endpoints: []netip.AddrPort{a, b}},
	}
	return &workload.Work{
		Trace:    made,
		Plan:     plan,
		Targets:  targets,
		Places:   route.RoundRobin(plan.Requests, route.Even([]int{1, 2})),
		Overhead: workload.Overhead{Head: 2, Tail: 1},
	}
}

// Builder makes token ids for completions.
func Builder(t testing.TB, salt, runID string, seed uint64) *workload.Builder {
	backend, err := api.New(
		"completions",
		api.Options{
			Model:       "m",
			Stream:      true,
			ForceOutput: true,
			TokenIDs:    true,
			CacheSalt:   salt,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	source, err := prompt.NewTokenIDs(seed, prompt.BuiltInIDs())
	if err != nil {
		t.Fatal(err)
	}
	return &workload.Builder{
		Backend: backend,
		Source:  source,
		RunID:   runID,
		Headers: []http1.Header{{Name: "Authorization", Value: "Bearer k"}},
	}
}

// Build lays out and builds the requests of w, which go when the test ends.
func Build(t testing.TB, r *workload.Builder, w *workload.Work) *workload.Requests {
	m, err := r.Layout(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	var built atomic.Int64
	if err := m.Fill(context.Background(), &built); err != nil {
		t.Fatal(err)
	}
	if built.Load() != m.Bytes() {
		t.Errorf("%d bytes reported as built, want %d", built.Load(), m.Bytes())
	}
	t.Cleanup(func() { _ = m.Free() })
	return m
}

// Routed is the sample's requests for three targets of unequal weights at these ports, each with a cache of its own.
func Routed(t testing.TB, ports ...uint16) *workload.Work {
	t.Helper()
	w := Work(t, 300)
	w.Targets = nil
	w.Caches = map[netip.AddrPort]workload.PrefixCache{}
	for i, port := range ports {
		addr := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		w.Targets = append(w.Targets, workload.Target{URL: fmt.Sprint("http://", i), Endpoints: []netip.AddrPort{addr}})
		w.Routing.Targets = append(w.Routing.Targets, route.Target{Endpoints: 1, Weight: float64(1 + i)})
		w.Caches[addr] = workload.PrefixCache{BlockTokens: 16, Tokens: 16_000 * int64(port)}
	}
	w.Places = route.RoundRobin(w.Requests(), w.Routing.Targets)
	return w
}

// Spec is what request i's prompt is made of.
func Spec(w *workload.Work, i int) prompt.Spec {
	return prompt.Spec{
		Blocks:      w.Trace.Blocks(i),
		BlockTokens: w.Trace.BlockTokens,
		Tokens:      w.PromptTokens(i),
		Unique:      w.Trace.Unique(i),
	}
}
