package mockllm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FaultKind names a way to misbehave.
type FaultKind string

// The faults. N counts tokens sent before the fault; D is a duration.
const (
	FaultStatus      FaultKind = "status"       // N = the status: an error response with a JSON body
	FaultResetBefore FaultKind = "reset-before" // RST before any byte of the response
	FaultResetAfter  FaultKind = "reset-after"  // RST when token N+1 is due
	FaultCloseBefore FaultKind = "close-before" // FIN before any byte of the response
	FaultTruncate    FaultKind = "truncate"     // FIN when token N+1 is due
	FaultStall       FaultKind = "stall"        // nothing after N tokens; the connection stays open
	FaultSlowBytes   FaultKind = "slow-bytes"   // one byte a write, D apart
	FaultSplit       FaultKind = "split"        // each event in N writes, splitPause apart
	FaultBadJSON     FaultKind = "bad-json"     // an event with half a JSON object after N tokens
	FaultBadChunk    FaultKind = "bad-chunk"    // a chunk size that is no number after N tokens, then FIN
	FaultBadStatus   FaultKind = "bad-status"   // a status line that is none, then FIN
	FaultErrorEvent  FaultKind = "error-event"  // an error in the stream after N tokens, in the way of the protocol
	FaultIdleClose   FaultKind = "idle-close"   // closes the connection when it was idle for D after this response
	FaultNoFinish    FaultKind = "no-finish"    // the body ends properly, without finish reason, usage and [DONE]
	FaultNoUsage     FaultKind = "no-usage"     // the usage is left out
	FaultShort       FaultKind = "short"        // stops after N tokens with "stop", whatever was asked
	FaultBigEvent    FaultKind = "big-event"    // the first event is padded with N bytes
	FaultInterim     FaultKind = "interim"      // N = the status (1xx) of a response head before the real one
	FaultWrongID     FaultKind = "wrong-id"     // the token behind N others has another id, in protocols that send ids and can be told them
	FaultNoLength    FaultKind = "no-length"    // neither length nor chunks: the body ends with the connection
)

// injectedError is the message of an error-event.
const injectedError = "injected fault: error-event"

// Fault is one fault and how often it happens.
type Fault struct {
	Kind  FaultKind
	N     int
	D     time.Duration
	Share float64 // of the requests that risk it, 0..1; ParseFault makes it 1 where none is given
}

// faultArg is what a fault's argument may be.
type faultArg struct {
	kind     FaultKind
	duration bool // the argument is D, not N
	none     bool // it takes no argument
	atToken  bool // it happens when N tokens are sent, and needs a goroutine of its own
	n        int  // the default of N
	min, max int  // the bounds of N
	d        time.Duration
}

// maxBigEventBytes bounds the padding of a big-event fault.
const maxBigEventBytes = 256 << 20

// faultArgs lists all faults with their arguments.
func faultArgs() []faultArg {
	tokens := func(k FaultKind) faultArg { return faultArg{kind: k, n: 1, max: maxOutputTokens, atToken: true} }
	return []faultArg{
		{kind: FaultStatus, n: 500, min: 200, max: 599},
		{kind: FaultResetBefore, none: true},
		tokens(FaultResetAfter),
		{kind: FaultCloseBefore, none: true},
		tokens(FaultTruncate),
		tokens(FaultStall),
		{kind: FaultSlowBytes, duration: true, d: time.Millisecond},
		{kind: FaultSplit, n: 3, min: 2, max: 1 << 10},
		tokens(FaultBadJSON),
		tokens(FaultBadChunk),
		{kind: FaultBadStatus, none: true},
		tokens(FaultErrorEvent),
		{kind: FaultIdleClose, duration: true},
		{kind: FaultNoFinish, none: true},
		{kind: FaultNoUsage, none: true},
		{kind: FaultShort, n: 1, min: 1, max: maxOutputTokens},
		{kind: FaultBigEvent, n: 1 << 20, max: maxBigEventBytes},
		{kind: FaultInterim, n: 103, min: 100, max: 199},
		{kind: FaultWrongID, n: 1, max: maxOutputTokens},
		{kind: FaultNoLength, none: true},
	}
}

func findFault(kind FaultKind) (faultArg, bool) {
	all := faultArgs()
	i := slices.IndexFunc(all, func(a faultArg) bool { return a.kind == kind })
	if i < 0 {
		return faultArg{}, false
	}
	return all[i], true
}

// FaultNames lists the faults with the kind of their arguments, for a help text.
func FaultNames() []string {
	var names []string
	for _, a := range faultArgs() {
		name := string(a.kind)
		switch {
		case a.none:
		case a.duration:
			name += ":DURATION"
		default:
			name += ":N"
		}
		names = append(names, name)
	}
	return names
}

// ParseFault reads NAME[:ARG][@SHARE], such as "status:503@0.01".
func ParseFault(text string) (Fault, error) {
	spec, share, hasShare := strings.Cut(strings.TrimSpace(text), "@")
	name, arg, hasArg := strings.Cut(spec, ":")
	a, ok := findFault(FaultKind(name))
	if !ok {
		return Fault{}, fmt.Errorf("fault %q: unknown; known are %s", text, strings.Join(FaultNames(), ", "))
	}
	f := Fault{Kind: a.kind, N: a.n, D: a.d, Share: 1}
	var err error
	switch {
	case hasArg && a.none:
		return Fault{}, fmt.Errorf("fault %q: %s takes no argument", text, name)
	case hasArg && a.duration:
		f.D, err = time.ParseDuration(arg)
	case hasArg:
		f.N, err = strconv.Atoi(arg)
	}
	if err != nil {
		return Fault{}, fmt.Errorf("fault %q: argument %q: %w", text, arg, err)
	}
	if hasShare {
		if f.Share, err = strconv.ParseFloat(share, 64); err != nil {
			return Fault{}, fmt.Errorf("fault %q: share %q: %w", text, share, err)
		}
	}
	if err := f.validate(); err != nil {
		return Fault{}, err
	}
	return f, nil
}

func (f Fault) validate() error {
	a, ok := findFault(f.Kind)
	switch {
	case !ok:
		return fmt.Errorf("fault %q: unknown; known are %s", f.Kind, strings.Join(FaultNames(), ", "))
	case !(f.Share >= 0 && f.Share <= 1):
		return fmt.Errorf("fault %s: share %v: must be between 0 and 1", f.Kind, f.Share)
	case f.D < 0:
		return fmt.Errorf("fault %s: duration %v: must not be negative", f.Kind, f.D)
	case !a.none && !a.duration && (f.N < a.min || f.N > a.max):
		return fmt.Errorf("fault %s: argument %d: must be between %d and %d", f.Kind, f.N, a.min, a.max)
	}
	return nil
}

// blocking reports whether the fault needs a goroutine of its own for the response.
func (f Fault) blocking() bool {
	switch f.Kind {
	case "":
		return false
	case FaultSlowBytes, FaultSplit, FaultBigEvent:
		return true
	}
	a, _ := findFault(f.Kind)
	return a.atToken
}

// maxShares bounds the faults that are counted; a client may ask for any.
const maxShares = 1 << 12

// shares decides which requests have a fault that only a share of them has: by counting, so that of any n in a row
// share × n have it, give or take one.
type shares struct {
	mu   sync.Mutex
	seen map[Fault]float64 // requests so far that risked it
}

// next reports whether the next request that risks f has it.
func (s *shares) next(f Fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil || len(s.seen) > maxShares {
		s.seen = map[Fault]float64{}
	}
	n := s.seen[f]
	s.seen[f]++
	return math.Floor((n+1)*f.Share) > math.Floor(n*f.Share)
}
