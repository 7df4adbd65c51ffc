package mockllm

import (
	"errors"
	"fmt"
	"sync"
)

// NewGroup makes a server of each configuration. They share nothing but their pacers, whose number the first one says,
// so that many of them cost no more goroutines than one, and write what is due together in one go. All of them have to
// be closed.
func NewGroup(configs []Config) ([]*Server, error) {
	if len(configs) == 0 {
		return nil, errors.New("mockllm: a group without a server")
	}
	clock, err := newClock()
	if err != nil {
		return nil, fmt.Errorf("mockllm: reading CLOCK_MONOTONIC: %w", err)
	}
	crew := newCrew(clock, configs[0].withDefaults().Pacers, len(configs))
	var servers []*Server
	for i := range configs {
		s, err := newServer(configs[i], crew)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// crew is the pacers of a group of servers.
type crew struct {
	clock  clock
	pacers []*pacer
	begin  sync.Once
	wg     sync.WaitGroup

	mu      sync.Mutex
	servers int // that are not closed
}

func newCrew(c clock, pacers, servers int) *crew {
	w := &crew{clock: c, servers: servers}
	for range pacers {
		w.pacers = append(w.pacers, newPacer(&w.clock))
	}
	return w
}

// start makes the pacers run, if they do not yet.
func (w *crew) start() {
	w.begin.Do(func() {
		for _, p := range w.pacers {
			w.wg.Go(p.run)
		}
	})
}

// leave is called once by each server, which has no requests any more. The last one ends the pacers.
func (w *crew) leave() {
	w.mu.Lock()
	w.servers--
	last := w.servers == 0
	w.mu.Unlock()
	if !last {
		return
	}
	for _, p := range w.pacers {
		close(p.stop)
	}
	w.wg.Wait()
}
