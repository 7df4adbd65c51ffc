package kvcache

import "slices"

// LRU is the prefix cache of one server with room for a number of tokens, by the rules of vLLM's block pool
// (vllm/v1/core/block_pool.py and kv_cache_manager.py). It gets the events in the order of time: Start, Prefilled and
// Finish of every request.
//
// The pool has capacity/engineBlockTokens engine blocks. A request takes the longest prefix of its prompt that the pool
// has, at most up to the last token, which has to be computed. It allocates blocks of its own for everything else, its
// answer too. It holds all of them until it finishes.
//
//   - A block is known by all tokens from the prompt's first to the block's last. It can be found from the end of its
//     request's prefill on. Requests that compute the same prefix at the same time have copies of it, which all take
//     room. The copy that has been known longest is found.
//   - Blocks that nobody holds wait in a queue, where they can still be found. A request that finishes adds its blocks
//     at the queue's end, those of the prompt's end first. A request that needs room takes blocks from the queue's
//     front.
//   - Blocks that cannot be found by any tokens are taken before all others. These are never used ones, last ones that
//     are not full, and those of requests that ended before their prefill. (vLLM does so since pull request 42656;
//     before, they queued like others.)
//   - Running requests may hold more than the capacity. Then nothing else is kept. A real server would let requests
//     wait instead.
//
// Two rules are simpler than vLLM's. vLLM makes blocks known when it schedules them, a step before they are computed.
// It allocates the answer's blocks as the answer grows. Here they are allocated at the start, since a caller has the
// answer's length but not its course.
//
// Time is linear in the ids shown, however many engine blocks each stands for. An id in the context of those before it
// takes 70 to 90 bytes while any of its blocks is in the pool. Without a limit, that is for ever. A further copy or
// part of it takes 36 bytes more, and an id of a running request 4.
type LRU struct {
	blockTokens  int // tokens that one hash id stands for
	engineTokens int // tokens of an engine block
	pool         pool
	requests     []inFlight
	unused       []Running // requests that have finished
}

// Running is a request between its Start and its Finish. Numbers are used again.
type Running uint32

// inFlight is what a running request holds.
type inFlight struct {
	runs      []uint32 // in the order of the prompt: runs found, then its own
	found     int      // runs that were found
	laid      uint32   // engine blocks of all runs
	foundTo   uint32   // engine blocks of those found
	nameless  uint32   // 1 if a last block is not full
	prefilled bool
	running   bool
}

// maxTokens of a prompt or an answer are counted, so that engine blocks fit into 32 bits.
const maxTokens = 1 << 31

// NewLRU makes an empty cache for hash ids of blockTokens tokens each. The server has engine blocks of
// engineBlockTokens tokens; both are at least 1. It has room for capacityTokens tokens (0 = unlimited), rounded down to
// whole blocks. vLLM keeps one of the blocks that it reports as num_gpu_blocks for itself.
func NewLRU(blockTokens, engineBlockTokens int, capacityTokens int64) *LRU {
	if blockTokens < 1 || engineBlockTokens < 1 || capacityTokens < 0 {
		panic("BUG: kvcache: a block of less than one token or a capacity below 0")
	}
	return &LRU{
		blockTokens:  blockTokens,
		engineTokens: engineBlockTokens,
		pool:         newPool(capacityTokens/int64(engineBlockTokens), capacityTokens == 0),
	}
}

// Start begins a request and returns how many tokens of its prompt the cache has, a multiple of the engine block. The
// prompt is given as in Infinite.Expected. head is the number of template tokens before the text; it must be the same
// for all prompts. outputTokens is the length of the answer to come.
func (c *LRU) Start(blocks []uint64, tokens, head, total, outputTokens int) (r Running, cached int) {
	total = clamp(total, maxTokens)
	r = c.newRequest()
	q := &c.requests[r]
	c.layPrompt(q, blocks, max(0, tokens), clamp(head, total), total)

	all := total + clamp(outputTokens, maxTokens)
	whole := uint32(all / c.engineTokens)
	if q.laid < whole {
		c.layOwn(q, alone, whole)
	}
	if all%c.engineTokens != 0 {
		q.nameless = 1
	}
	own := q.laid - q.foundTo
	c.pool.allocate(int64(own) + int64(q.nameless))
	return r, int(q.foundTo) * c.engineTokens
}

// Prefilled marks the request's prompt as computed: its whole blocks can be found from now on.
func (c *LRU) Prefilled(r Running) {
	q := c.request(r)
	if q.prefilled {
		return
	}
	q.prefilled = true
	for _, number := range q.runs[q.found:] {
		c.pool.register(number)
	}
}

// Finish ends the request, whose blocks are free unless others hold them too. Without Prefilled, those that it
// allocated are never found.
func (c *LRU) Finish(r Running) {
	q := c.request(r)
	freed := int64(q.nameless)
	end := q.laid
	if !q.prefilled {
		for _, number := range q.runs[q.found:] {
			c.pool.discard(number)
		}
		freed += int64(q.laid - q.foundTo)
		end = q.foundTo
		q.runs = q.runs[:q.found]
	}
	c.pool.vacant += freed
	for _, number := range slices.Backward(q.runs) {
		from := c.pool.runs[number].from
		c.pool.release(number, end)
		end = from
	}
	c.pool.debt -= c.pool.take(c.pool.debt) // what is owed is paid as far as blocks are free
	*q = inFlight{runs: q.runs[:0]}
	c.unused = append(c.unused, r)
}

func (c *LRU) newRequest() Running {
	n := len(c.unused)
	if n > 0 {
		r := c.unused[n-1]
		c.unused = c.unused[:n-1]
		c.requests[r].running = true
		return r
	}
	c.requests = append(c.requests, inFlight{running: true})
	return Running(len(c.requests) - 1)
}

func (c *LRU) request(r Running) *inFlight {
	if int(r) >= len(c.requests) || !c.requests[r].running {
		panic("BUG: kvcache: a request that is not running")
	}
	return &c.requests[r]
}

// layPrompt gives the request the blocks of its prompt that other prompts can have too. An engine block belongs to the
// node in which its last token lies.
func (c *LRU) layPrompt(q *inFlight, blocks []uint64, tokens, head, total int) {
	known := min(tokens, total-head, len(blocks)*c.blockTokens)
	common := head + known
	if known == tokens {
		common = total // equal texts share the template's tail
	}
	last := common / c.engineTokens
	reach := uint32(max(0, total-1) / c.engineTokens)

	c.lay(q, 0, uint32(head/c.engineTokens), reach)
	node := uint32(0)
	at := 0
	inNode := 0
	for i := 0; at < known && head+at < last*c.engineTokens; i++ {
		inNode = min(c.blockTokens, known-at)
		at += inNode
		node = c.pool.node(node, blocks[i])
		to := (head + at) / c.engineTokens
		c.lay(q, node, uint32(to), reach)
	}
	if last > (head+known)/c.engineTokens {
		node = c.pool.node(node|tail, uint64(inNode))
		c.lay(q, node, uint32(last), reach)
	}
}

// lay gives the request the engine blocks up to block to, which end in node. Those found before block reach are shared.
// From the first block that is not found on, they are its own.
func (c *LRU) lay(q *inFlight, node, to, reach uint32) {
	for q.foundTo == q.laid && q.laid < min(to, reach) {
		number := c.pool.find(node, q.laid)
		if number == 0 {
			break
		}
		end := min(c.pool.runs[number].to, to, reach)
		held := c.pool.hold(number, q.laid, end)
		q.runs = append(q.runs, held)
		q.found++
		q.laid = end
		q.foundTo = end
	}
	if q.laid < to {
		c.layOwn(q, node, to)
	}
}

// layOwn gives the request new engine blocks up to block to.
func (c *LRU) layOwn(q *inFlight, node, to uint32) {
	q.runs = append(q.runs, c.pool.add(run{
		node:    node,
		from:    q.laid,
		to:      to,
		holders: 1,
	}))
	q.laid = to
}

func clamp(n, most int) int {
	return max(0, min(n, most))
}
