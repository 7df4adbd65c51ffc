// Package mockllm is an LLM server to aim at: it speaks the OpenAI completions and chat protocols with the latencies,
// the prefix cache, the queue and the faults that it is told to have, and it writes down what it saw.
//
// It owns its protocol code, its clock and its request log, and shares no code with the client, so that no mistake of
// one cancels out in the other. It does not know traces, plans or records.
//
// Goroutines: one reader for each connection, which parses requests and answers the cheap ones; a few pacers (see
// Config.Pacers), which write the events of all ordinary streams at their instants without ever blocking; one
// goroutine for each stream that may block (TLS, gzip, faults, a client that does not read). A Server's methods are
// safe for concurrent use.
//
// Allocations: none for an event of an ordinary stream; a handful for a request.
package mockllm
