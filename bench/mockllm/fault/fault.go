// Package fault names the ways in which a mock can misbehave, reads them from text and decides which requests have one.
//
// It commits none. Its functions may be called by any goroutine.
//
// The package is not an API: any release may change it.
package fault

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind names a way to misbehave.
type Kind string

// The faults. N counts tokens sent before the fault; D is a duration.
const (
	Status      Kind = "status"       // N = the status: an error response with a JSON body
	ResetBefore Kind = "reset-before" // RST before any byte of the response
	ResetAfter  Kind = "reset-after"  // RST when token N+1 is due
	CloseBefore Kind = "close-before" // FIN before any byte of the response
	Truncate    Kind = "truncate"     // FIN when token N+1 is due
	Stall       Kind = "stall"        // nothing after N tokens; the connection stays open
	SlowBytes   Kind = "slow-bytes"   // one byte a write, D apart
	Split       Kind = "split"        // each event in N writes, splitPause apart
	BadJSON     Kind = "bad-json"     // an event with half a JSON object after N tokens
	BadChunk    Kind = "bad-chunk"    // a chunk size that is no number after N tokens, then FIN
	BadStatus   Kind = "bad-status"   // a status line that is none, then FIN
	ErrorEvent  Kind = "error-event"  // an error in the stream after N tokens, in the way of the protocol
	IdleClose   Kind = "idle-close"   // closes the connection when it was idle for D after this response
	NoFinish    Kind = "no-finish"    // the body ends properly, without finish reason, usage and [DONE]
	NoUsage     Kind = "no-usage"     // the usage is left out
	Short       Kind = "short"        // stops after N tokens with "stop", whatever was asked
	BigEvent    Kind = "big-event"    // the first event is padded with N bytes
	Interim     Kind = "interim"      // N = the status (1xx) of a response head before the real one
	WrongID     Kind = "wrong-id"     // the token behind N others has another id, in protocols that send ids
	NoLength    Kind = "no-length"    // neither length nor chunks: the body ends with the connection
)

// Fault is one fault and how often it happens.
type Fault struct {
	Kind  Kind
	N     int
	D     time.Duration
	Share float64 // of the requests that risk it, 0..1; Parse makes it 1 where none is given
}

// argument is what a fault's argument may be.
type argument struct {
	kind     Kind
	duration bool // the argument is D, not N
	none     bool // it takes no argument
	atToken  bool // it happens when N tokens are sent, and needs a goroutine of its own
	n        int  // the default of N
	min, max int  // the bounds of N
	d        time.Duration
}

// MaxTokens bounds the tokens before a fault.
const MaxTokens = 1 << 24

// maxBigEventBytes bounds the padding of a big-event fault.
const maxBigEventBytes = 256 << 20

// arguments lists all faults with their arguments.
var arguments = []argument{
	{kind: Status, n: 500, min: 200, max: 599},
	{kind: ResetBefore, none: true},
	afterTokens(ResetAfter),
	{kind: CloseBefore, none: true},
	afterTokens(Truncate),
	afterTokens(Stall),
	{kind: SlowBytes, duration: true, d: time.Millisecond},
	{kind: Split, n: 3, min: 2, max: 1 << 10},
	afterTokens(BadJSON),
	afterTokens(BadChunk),
	{kind: BadStatus, none: true},
	afterTokens(ErrorEvent),
	{kind: IdleClose, duration: true},
	{kind: NoFinish, none: true},
	{kind: NoUsage, none: true},
	{kind: Short, n: 1, min: 1, max: MaxTokens},
	{kind: BigEvent, n: 1 << 20, max: maxBigEventBytes},
	{kind: Interim, n: 103, min: 100, max: 199},
	{kind: WrongID, n: 1, max: MaxTokens},
	{kind: NoLength, none: true},
}

func afterTokens(k Kind) argument {
	return argument{
		kind:    k,
		n:       1,
		max:     MaxTokens,
		atToken: true,
	}
}

func find(kind Kind) (argument, bool) {
	i := slices.IndexFunc(arguments, func(a argument) bool { return a.kind == kind })
	if i < 0 {
		return argument{}, false
	}
	return arguments[i], true
}

// Names lists the faults with the kind of their arguments, for a help text.
func Names() []string {
	var names []string
	for _, a := range arguments {
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

// Parse reads NAME[:ARG][@SHARE], such as "status:503@0.01".
func Parse(text string) (Fault, error) {
	spec, share, hasShare := strings.Cut(strings.TrimSpace(text), "@")
	name, arg, hasArg := strings.Cut(spec, ":")
	a, ok := find(Kind(name))
	if !ok {
		return Fault{}, fmt.Errorf("fault %q: unknown; known are %s", text, strings.Join(Names(), ", "))
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
	if err := f.Validate(); err != nil {
		return Fault{}, err
	}
	return f, nil
}

// Validate returns an error if the fault has no kind that is known, or numbers that its kind cannot have.
func (f Fault) Validate() error {
	a, ok := find(f.Kind)
	switch {
	case !ok:
		return fmt.Errorf("fault %q: unknown; known are %s", f.Kind, strings.Join(Names(), ", "))
	case !(f.Share >= 0 && f.Share <= 1):
		return fmt.Errorf("fault %s: share %v: must be between 0 and 1", f.Kind, f.Share)
	case f.D < 0:
		return fmt.Errorf("fault %s: duration %v: must not be negative", f.Kind, f.D)
	case !a.none && !a.duration && (f.N < a.min || f.N > a.max):
		return fmt.Errorf("fault %s: argument %d: must be between %d and %d", f.Kind, f.N, a.min, a.max)
	}
	return nil
}

// AtToken reports whether the fault happens when N tokens are sent.
func (f Fault) AtToken() bool {
	a, _ := find(f.Kind)
	return a.atToken
}

// Blocking reports whether the fault needs a goroutine of its own for the response.
func (f Fault) Blocking() bool {
	return f.AtToken() || f.Kind == SlowBytes || f.Kind == Split || f.Kind == BigEvent
}

// maxCounted bounds the faults that are counted; a client may ask for any.
const maxCounted = 1 << 12

// Shares decides which requests have a fault that only a share of them has. It counts: of any n in a row share × n have
// it, give or take one.
type Shares struct {
	mu   sync.Mutex
	seen map[Fault]float64 // requests so far that risked it
}

// Next reports whether the next request that risks f has it.
func (s *Shares) Next(f Fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil || len(s.seen) > maxCounted {
		s.seen = map[Fault]float64{}
	}
	n := s.seen[f]
	s.seen[f]++
	return math.Floor((n+1)*f.Share) > math.Floor(n*f.Share)
}
