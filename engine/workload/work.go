// Package workload owns what a run sends: which request goes where and when, and the bytes of every request, head and
// body, in memory.
//
// It parses the targets, routes requests to their addresses, and lays out and builds the request bytes. It computes
// what an ideal prefix cache would have held for each request. It opens no socket and reads no clock.
//
// A Work is made and changed by one goroutine before the run. During the run any goroutine may read it. Requests.List,
// Size, Ready and MarkUnneeded are called by the senders between a deadline and its write: they take no lock and
// allocate nothing. Requests.BuildMore is for one goroutine; Requests.SetTarget is for the sender of its request. The
// request bytes lie outside the Go heap, in mapped memory, and go with Requests.Free; the rest is allocated before the
// run.
//
// The package is not an API: any release may change it.
package workload

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/sched"
)

// Work is what a run sends, where and when. Request i of the plan is row i of the trace, is sent to Places[i] and has
// the bytes Prebuilt.List(i). A finished Work is immutable, except for what Routing.Late decides later.
type Work struct {
	Trace    *trace.Trace
	Plan     sched.Plan
	Targets  []Target
	Places   []route.Place
	Routing  Routing                        // how the places are found
	Overhead Overhead                       // what the servers add to each prompt; taken from its end
	Caches   map[netip.AddrPort]PrefixCache // sizes, where known
	Verbatim *Verbatim                      // what is known of verbatim prompts; nil = nothing
	Answers  *Answers                       // that servers are told; nil = they are free
	Prebuilt *Requests
	Played   bool            // the trace is of plays: fingerprints have blocks by their ids
	Before   []int32         // see Plays; nil without these
	Spare    int             // how many of Targets, the last, have no server: others may join in their places
	Speed    float64         // divides the trace's times where the plan has none, as in lanes; 0 = 1
	Choices  int             // answers that the run's extra members ask each request for (api.Choices)
	Numbers  []int32         // of its requests in the whole work, ascending; nil = this is the whole
	records  []record.Record // of its requests as they are in the whole work, if it is a part
}

// Requests is how many requests the work has.
func (w *Work) Requests() int {
	return w.Plan.Requests
}

// URLs are the targets as results name them.
func (w *Work) URLs() []string {
	urls := make([]string, len(w.Targets)-w.Spare)
	for i, t := range w.Targets[:len(urls)] {
		urls[i] = t.URL
	}
	return urls
}

// Endpoint is the address that request i goes to.
func (w *Work) Endpoint(i int) netip.AddrPort {
	place := w.Places[i]
	return w.Targets[place.Target].Endpoints[place.Endpoint]
}

// PromptTokens is how many tokens of ours make a prompt of the recorded length; at least one. It does not apply to
// verbatim content.
func (w *Work) PromptTokens(i int) int {
	recorded := int(w.Trace.InputTokens[i])
	return max(1, recorded-w.Overhead.Tokens())
}

// BuiltTokens is what the server should count: the recorded length, unless what it adds is longer.
func (w *Work) BuiltTokens(i int) int {
	return w.PromptTokens(i) + w.Overhead.Tokens()
}

// SurplusTokens is how many more tokens than recorded the server counts in request i. It is above 0 if the recorded
// length is not above what the server adds: then a prompt of one token is too long.
func (w *Work) SurplusTokens(i int) int {
	if !w.Made(i) {
		return 0
	}
	return w.BuiltTokens(i) - int(w.Trace.InputTokens[i])
}

// Overhead is what a server adds to every prompt, in tokens: a chat template, a BOS. The zero value is a server that
// adds none.
type Overhead struct {
	Head, Tail  int  // before and after the prompt; the head shifts every block of the prompt
	HeadUnknown bool // only the sum is known: it stands in Tail, and Head is 0
}

// Tokens is the sum of head and tail.
func (o Overhead) Tokens() int {
	return o.Head + o.Tail
}

// PrefixCache is the size of one server's prefix cache.
type PrefixCache struct {
	BlockTokens int   // tokens that it caches as one piece
	Assumed     bool  // BlockTokens is a guess: the server may cache other pieces
	Tokens      int64 // capacity; 0 = unlimited, or unknown
	Off         bool  // it caches nothing
}

// DefaultBlockTokens is the block size that is assumed if a server reports none: vLLM's default.
const DefaultBlockTokens = 16

// Cache is the size of an instance's prefix cache.
func (w *Work) Cache(instance netip.AddrPort) PrefixCache {
	c, ok := w.Caches[instance]
	if ok {
		return c
	}
	return PrefixCache{BlockTokens: DefaultBlockTokens, Assumed: true}
}

// CacheOff reports whether all servers of a target report that they cache no prefixes.
func (w *Work) CacheOff(target int) bool {
	return !slices.ContainsFunc(w.Targets[target].Endpoints, func(addr netip.AddrPort) bool {
		return !w.Cache(addr).Off
	})
}

// Records returns the run's records, each with what is known of it before it is sent.
func (w *Work) Records(runID string, ideal IdealHits, backend api.Backend) []record.Record {
	if w.Numbers != nil {
		return w.records
	}
	records := make([]record.Record, w.Requests())
	for i := range records {
		r := &records[i]
		w.Describe(r, i, ideal, backend)
		r.RequestID = RequestIDs(runID, i, 1)
		if w.Routing.Late {
			continue // the rest is known when it leaves
		}
		r.Target = w.Targets[w.Places[i].Target].URL
		r.Endpoint = w.Endpoint(i).String()
	}
	w.describeJobs(records)
	return records
}

// Describe makes r the record of request i, as far as that is known before it has an id and a place. Without ideal hits
// it expects none.
func (w *Work) Describe(r *record.Record, i int, ideal IdealHits, backend api.Backend) {
	t := w.Trace
	r.Clear()
	r.Row = int64(t.Row[i])
	if t.Session != nil {
		r.Session = t.Session[i]
		r.SessionName = t.SessionName(i)
	}
	if t.Turn != nil {
		r.Turn = int64(t.Turn[i])
	}
	if t.Type != nil {
		r.Type = t.Types[t.Type[i]]
	}
	owner := t.OwnerOf(i)
	r.Tenant = owner.Tenant
	r.Model = owner.Model
	r.Class = owner.Class
	r.Priority = owner.Priority
	w.recordLengths(r, i, backend)
	if w.Plan.Open() {
		r.PlannedNS = w.plannedNS(i)
	}
	d := w.Plan.Dependencies
	if d != nil && i < int(d.Primers) {
		r.Phase = record.Primer
	} else if d != nil && i < int(d.Prepare) {
		r.Phase = record.Warmup
	}
	if t.Cached != nil && t.Cached[i] >= 0 {
		r.RecordedCachedTokens = int64(t.Cached[i])
	}
	if !w.Routing.Late { // else the order of release decides
		ideal.FillRecord(i, r)
	}
}

// AskedChoices is how many answers request i asks for.
func (w *Work) AskedChoices(i int) int {
	l := w.Trace.Verbatim(i)
	n := max(1, w.Choices, api.Choices(l.Extra))
	has := func(key string) bool {
		return bytes.Contains(l.Content, []byte(key))
	}
	if l.Kind == trace.VerbatimPayload && (has(`"n"`) || has(`"best_of"`)) {
		body := fmt.Appendf(nil, "{%s}", l.Content)
		n = max(n, api.Choices(body))
	}
	return n
}

// recordLengths notes the lengths that were built and asked for. Only the server knows the length of a verbatim prompt.
// A payload asks for a length of its own, and so may extra members.
func (w *Work) recordLengths(r *record.Record, i int, backend api.Backend) {
	n := w.AskedChoices(i)
	if n > 1 {
		r.AskedChoices = int64(n)
	}
	if w.Made(i) {
		r.InputTokens = int64(w.Trace.InputTokens[i])
		r.BuiltTokens = int64(w.BuiltTokens(i))
	}
	asked := w.askedTokens(i, backend)
	if asked > 0 {
		r.OutputTokens = int64(asked)
	}
}

// idDigits, a 1 with nine zeros, has more digits than any row of a run. The ids of one run are equally long, so
// requests are, too.
const idDigits = 1_000_000_000

// RequestIDs are the ids of n requests from the first on, without anything between them.
func RequestIDs(runID string, first, n int) string {
	b := make([]byte, 0, n*(len(runID)+len("-000000000")))
	for i := range n {
		b = appendRequestID(b, runID, first+i)
	}
	return string(b)
}

func appendRequestID(dst []byte, runID string, number int) []byte {
	dst = append(dst, runID...)
	at := len(dst)
	dst = strconv.AppendInt(dst, int64(idDigits+number), 10)
	dst[at] = '-' // in place of the 1
	return dst
}

// UsesTLS reports whether requests are encrypted.
func (w *Work) UsesTLS() bool {
	return slices.ContainsFunc(w.Targets, func(t Target) bool {
		return t.TLS
	})
}
