package mockllm

import "sync"

// slots limits how many requests run at once. Those that wait are served in order of arrival.
type slots struct {
	mu       sync.Mutex
	limit    int // 0 = none
	maxQueue int // 0 = none
	running  int
	queue    []*reply
	freed    []int64 // when the free slots that were in use before became free, oldest first
}

// admission is what became of a request that asked for a slot.
type admission int

const (
	admitted admission = iota // it runs now
	queued                    // release will begin it
	refused                   // the queue is full
)

// acquire gives r a slot, if one is free, and says since when it was: a request that arrived before that, but is only seen
// now, cannot have begun at its arrival.
func (s *slots) acquire(r *reply) (a admission, freeSinceNS int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.limit == 0 || s.running+len(s.freed) < s.limit:
		s.running++
		return admitted, 0
	case s.running < s.limit:
		freeSinceNS = s.freed[0]
		s.freed = s.freed[1:]
		s.running++
		return admitted, freeSinceNS
	case s.maxQueue > 0 && len(s.queue) >= s.maxQueue:
		return refused, 0
	}
	s.queue = append(s.queue, r)
	return queued, 0
}

// release ends one running request at the instant now and returns the next to begin, if any.
func (s *slots) release(now int64) *reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.running--
		if s.limit > 0 {
			s.freed = append(s.freed, now)
		}
		return nil
	}
	r := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	return r
}

// leave takes r out of the queue. It reports false when r was not waiting there.
func (s *slots) leave(r *reply) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range s.queue {
		if q == r {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return true
		}
	}
	return false
}

// counts returns how many run and how many wait.
func (s *slots) counts() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, len(s.queue)
}
