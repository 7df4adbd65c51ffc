// Package mockllm is an LLM server to replay against. It speaks the protocols of OpenAI (completions, chat, responses,
// embeddings), Anthropic, TGI, SGLang and Triton. Config sets its latencies, prefix cache, queue and faults, and its
// log has a line for each request.
//
// A protocol is data, in a file with its sources: how requests are read and what each event looks like. All else is
// the same for every protocol.
//
// The package has its own protocol code, clock, request log and prefix cache, and shares no code with the client. So a
// mistake in one cannot cancel out in the other. It has no traces, plans or records. Its tokens are words, whatever a
// real model's tokenizer would make of them.
//
// If its cache has a limit, it is a pool of blocks like that of vLLM's v1 engine. A request begins when there are
// enough free blocks for its prompt and all of its output. The longest cached prefix of whole blocks (never the whole
// prompt) is reused and held. The other blocks come from the head of the queue of free blocks. The prompt's whole
// blocks can be found when its prefill ends. At the request's end its full blocks go to the queue's tail, the last one
// first. Blocks without useful content go to its head. These are a last one that is not full, and all blocks of a
// request that left before its prefill ended. Unlike vLLM it takes the blocks of the output at the beginning, so that
// no request is ever preempted. Waiting requests are looked at only when a request ends.
//
// Config.HostTokens adds a second tier, which keeps all that was computed, least recently used blocks let go. A request
// takes from there what follows its prefix in the first tier.
//
// Goroutines: one reader for each connection parses requests and answers the cheap ones. A few pacers (see
// Config.Pacers) write the events of all ordinary streams when they are due, and never block. A stream that may block
// (TLS, gzip, faults, a client that does not read) has a goroutine of its own. A Server's methods are safe for
// concurrent use.
//
// Allocations: none for an event of an ordinary stream; a handful for a request, none of them in the cache.
//
// The package is not an API: any release may change it.
package mockllm
