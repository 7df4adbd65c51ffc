package kvcache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// event is a step of a server's life: a prompt starts, or the choice-th running request goes on.
type event struct {
	kind         int // startPrompt, endPrefill or finish
	prompt       prompt
	outputTokens int
	choice       int
}

const (
	startPrompt = iota
	endPrefill
	finish
	eventKinds
)

// server is the two models side by side.
type server struct {
	model   *LRU
	oracle  *poolOracle
	running []pair
}

type pair struct {
	model  Running
	oracle *poolRequest
}

func newServer(blockTokens, engineTokens int, capacityTokens int64) *server {
	return &server{
		model:  NewLRU(blockTokens, engineTokens, capacityTokens),
		oracle: newPoolOracle(blockTokens, engineTokens, capacityTokens),
	}
}

func (s *server) do(e event) (got, want int) {
	if e.kind == startPrompt {
		var p pair
		p.model, got = s.model.Start(e.prompt.blocks, e.prompt.tokens, e.prompt.head, e.prompt.total(), e.outputTokens)
		p.oracle, want = s.oracle.start(e.prompt, e.outputTokens)
		s.running = append(s.running, p)
		return got, want
	}
	if len(s.running) == 0 {
		return 0, 0
	}
	i := e.choice % len(s.running)
	p := s.running[i]
	if e.kind == finish {
		s.model.Finish(p.model)
		s.oracle.finish(p.oracle)
		s.running = slices.Delete(s.running, i, i+1)
	} else if !p.oracle.named {
		s.model.Prefilled(p.model)
		s.oracle.prefilled(p.oracle)
	}
	return 0, 0
}

// check counts the model's blocks, which have to be as many as the oracle's.
func (s *server) check(t *testing.T) {
	t.Helper()
	p := &s.model.pool
	queued, worthless := int64(0), int64(0)
	for n := p.runs[0].newer; n != 0; n = p.runs[n].newer {
		queued += int64(p.runs[n].to - p.runs[n].from)
		must.Equal(t, p.runs[p.runs[n].newer].older, n, "run stands in the queue in one direction only")
	}
	if p.unlimited {
		return
	}
	for _, block := range s.oracle.queue {
		if block.name == 0 {
			worthless++
		}
	}
	if want := int64(len(s.oracle.queue)); queued+p.vacant != want || p.vacant != worthless {
		t.Fatalf("%d blocks in the queue and %d that hold nothing, want %d in all, of which %d hold nothing",
			queued, p.vacant, want, worthless)
	}
	must.Equal(t, p.debt, int64(max(0, s.oracle.blocks-s.oracle.capacity)), "blocks above the capacity")
}

// run lets both models live through the events, and then empties them.
func (s *server) run(t *testing.T, events []event) (found int) {
	t.Helper()
	for i, e := range events {
		got, want := s.do(e)
		must.Equal(t, got, want, "blocks of %d, engine blocks of %d, capacity of %d engine blocks, event %d of %+v: tokens found", s.oracle.blockTokens, s.oracle.engineTokens, s.oracle.capacity, i, events[:i+1])
		s.check(t)
		found += got
	}
	for len(s.running) > 0 {
		s.do(event{kind: finish})
		s.check(t)
	}
	s.checkEmptied(t)
	return found
}

// checkEmptied takes all blocks out of the pool, after which it has to be as new.
func (s *server) checkEmptied(t *testing.T) {
	t.Helper()
	p := &s.model.pool
	if p.unlimited {
		return
	}
	p.allocate(int64(s.oracle.capacity))
	nodes := len(p.prefixes.nodes) - len(p.prefixes.unused)
	runs := len(p.runs)
	for n := p.spare; n != 0; n = p.runs[n].rest {
		runs--
	}
	if nodes != 1 || runs != 1 || p.shelves[0] != (shelf{}) || p.debt != 0 || p.vacant != 0 {
		t.Fatalf("emptied, the pool has %d nodes, %d runs, root %+v, debt %d, %d vacant blocks",
			nodes, runs, p.shelves[0], p.debt, p.vacant)
	}
}

// scene is what a random server is made of.
type scene struct {
	blockTokens, engineTokens int
	head, tail                int
	ids, longest              int // distinct ids, ids of a prompt at most
	output                    int // tokens at most
}

func (c *scene) prompt(chance *rand.Rand) prompt {
	blocks := make([]uint64, chance.IntN(c.longest+1))
	for i := range blocks {
		blocks[i] = uint64(chance.IntN(c.ids))
	}
	tokens := len(blocks) * c.blockTokens
	switch chance.IntN(4) {
	case 0: // a last block of any length, or ids too many
		tokens = chance.IntN(tokens + 1)
	case 1: // a unique rest
		tokens += chance.IntN(2 * c.blockTokens)
	}
	return prompt{blocks, tokens, c.head, c.tail}
}

func (c *scene) events(chance *rand.Rand, n int) []event {
	events := make([]event, n)
	for i := range events {
		e := event{kind: chance.IntN(eventKinds), choice: chance.IntN(100)}
		if e.kind == startPrompt {
			e.prompt = c.prompt(chance)
			e.outputTokens = chance.IntN(c.output + 1)
		}
		events[i] = e
	}
	return events
}

func randomScene(chance *rand.Rand) *scene {
	return &scene{
		blockTokens:  1 + chance.IntN(12),
		engineTokens: 1 + chance.IntN(6),
		head:         chance.IntN(7),
		tail:         chance.IntN(7),
		ids:          1 + chance.IntN(3),
		longest:      1 + chance.IntN(5),
		output:       chance.IntN(10),
	}
}

// Few ids, small pools and any order of events: all kinds of meeting happen.
func TestLRUAgreesWithOracle(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 6))
	found := 0
	for range 3000 {
		c := randomScene(chance)
		capacity := int64(chance.IntN(100))
		found += newServer(c.blockTokens, c.engineTokens, capacity).run(t, c.events(chance, 60))
	}
	if found < 100_000 {
		t.Errorf("%d tokens found in all: too few to prove much", found)
	}
}

// One after another and without a limit, a server has all that any could have.
func TestUnlimitedLRUAgreesWithInfinite(t *testing.T) {
	chance := rand.New(rand.NewPCG(7, 8))
	for range 3000 {
		c := randomScene(chance)
		model, ideal := NewLRU(c.blockTokens, c.engineTokens, 0), NewInfinite(c.blockTokens, c.engineTokens)
		for i := range 40 {
			p := c.prompt(chance)
			r, got := model.Start(p.blocks, p.tokens, p.head, p.total(), chance.IntN(c.output+1))
			model.Prefilled(r)
			model.Finish(r)
			must.Equal(t, got, ideal.Expected(p.blocks, p.tokens, p.head, p.total()), "%+v, prompt %d, %+v: tokens", c, i, p)
		}
	}
}

func FuzzLRU(f *testing.F) {
	f.Add(uint8(4), uint8(1), uint8(2), uint8(1), uint8(12), []byte{0, 9, 1, 2, 3, 1, 0, 0, 9, 1, 2, 4, 2, 0, 2, 0})
	f.Fuzz(func(t *testing.T, blockTokens, engineTokens, head, tail, capacity uint8, script []byte) {
		if len(script) > 300 {
			return
		}
		next := func() int {
			if len(script) == 0 {
				return 0
			}
			b := script[0]
			script = script[1:]
			return int(b)
		}
		s := newServer(1+int(blockTokens%20), 1+int(engineTokens%10), int64(capacity))
		var events []event
		for len(script) > 0 {
			b := next()
			e := event{kind: b % eventKinds, choice: b / eventKinds}
			if e.kind == startPrompt {
				e.outputTokens = b / eventKinds % 16
				e.prompt = prompt{head: int(head % 20), tail: int(tail % 20), tokens: next()}
				for range next() % 6 {
					e.prompt.blocks = append(e.prompt.blocks, uint64(next()%3))
				}
			}
			events = append(events, e)
		}
		s.run(t, events)
	})
}
