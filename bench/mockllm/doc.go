// Package mockllm is an LLM server to aim at: it speaks the protocols of OpenAI (completions, chat, responses,
// embeddings), Anthropic, TGI, SGLang and Triton, with the latencies, the prefix cache, the queue and the faults that it
// is told to have, and it writes down what it saw.
//
// A protocol is an api, in a file of its own with its sources: how requests are read and what each event looks like. All
// else is the same for every protocol.
//
// It owns its protocol code, its clock, its request log and its prefix cache, and shares no code with the client, so that
// no mistake of one cancels out in the other. It does not know traces, plans or records. Its tokens are words; which words
// a real model's tokenizer would split is none of its business.
//
// Where its cache has a limit it is a pool of blocks like that of vLLM's v1 engine: a request begins when there are
// enough free blocks for its prompt and all of its output, the longest prefix of whole blocks that are there (never the
// whole prompt) is reused and held, and the rest come from the head of the queue of free blocks. The prompt's whole
// blocks can be found when its prefill ends. At the request's end its full blocks go to the queue's tail, the last one
// first, and those that hold nothing of use to its head: a last one that is not full, and all that it took if it left
// before its prefill ended. Unlike vLLM it takes the blocks of the output at the beginning, so that no request is ever preempted, and looks at who
// waits only when a request ends.
//
// Goroutines: one reader for each connection, which parses requests and answers the cheap ones; a few pacers (see
// Config.Pacers), which write the events of all ordinary streams at their instants without ever blocking; one
// goroutine for each stream that may block (TLS, gzip, faults, a client that does not read). A Server's methods are
// safe for concurrent use.
//
// Allocations: none for an event of an ordinary stream; a handful for a request, none of them in the cache.
package mockllm
