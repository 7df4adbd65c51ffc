// Package api writes request bodies for LLM servers and reads what they answer, one file a backend.
//
// It owns paths, bodies and the meaning of an event's JSON. It does not own prompts (they come as JSON-ready bytes),
// HTTP, sockets, clocks or the policy of what a missing field means.
//
// A [Backend] is immutable: any goroutine may use it. Appending the body of a made prompt allocates nothing. Nor does
// parsing, save for what no known server sends (a new finish reason, an escaped key), an answer's text in several
// pieces and errors.
//
// The package is not an API: any release may change it.
package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Options are how every body of a run is made. The zero value asks for a whole answer of the server's default model.
type Options struct {
	Model  string // left out where empty
	Stream bool   // ask for server-sent events with usage at their end
	// ask for exactly the output tokens (min_tokens, ignore_eos and their like), not at most
	ForceOutput bool
	// as ParseExtra returns it: merged into the body and into its object of parameters; its keys win over ours
	Extra     json.RawMessage
	CacheSalt string // "" = none; letters, digits, - and _
	TokenIDs  bool   // prompts are token ids "1,2,3", not text
	Answers   bool   // bodies tell the server its answer's tokens: AnswerEnd has their place
}

// Traits are how one API differs from another, besides the form of its bodies.
type Traits struct {
	Template     bool   // a chat template stands around the prompt
	TokenIDs     bool   // takes prompts as token ids
	NoText       bool   // takes no others
	Made         bool   // takes prompts that are made of tokens; else whole bodies only
	Model        bool   // a request names its model
	Salt         bool   // takes a cache_salt
	Forces       bool   // can have an answer of exactly so many tokens
	Answers      bool   // can be told which tokens
	Generates    bool   // answers have output tokens
	Streams      bool   // can answer event by event
	Marks        bool   // an answer marks its end; else only HTTP does
	Counts       bool   // a whole answer has the number of prompt tokens
	StreamCounts bool   // a streamed one does
	Sized        bool   // an answer must have a number of tokens that it may not exceed
	Least        int    // the smallest such number
	Stateful     bool   // a request may leave more behind on the server than a cache: it is not safe to send twice
	CountHeader  string // header of a whole answer with the number of prompt tokens; "" = none
	Key          Key    // how its owner wants a key; zero: as OpenAI does
}

// Key is how an API's owner takes a key, besides as a bearer token.
type Key struct {
	Header string // that carries it
	Env    string // environment variable in which people keep it
}

// Header is a header that an API wants on every request.
type Header struct{ Name, Value string }

// Backend is one server API.
type Backend interface {
	// Path is where requests go, such as "/v1/completions"; "" where the API leaves that open.
	Path() string
	// Traits returns the API's properties.
	Traits() Traits
	// Headers are sent with every request.
	Headers() []Header
	// Size is the exact number of bytes of a body.
	Size(promptBytes, outputTokens int) int
	// AppendPrefix appends a body up to where the prompt's bytes go.
	AppendPrefix(dst []byte) []byte
	// AppendSuffix appends the rest of the body, from after the prompt's bytes on.
	AppendSuffix(dst []byte, outputTokens int) []byte
	// AnswerEnd returns how many bytes of AppendSuffix, with a number of output tokens, follow the place of the
	// answer's ids "1,2,3". It is 0 without Options.Answers. Size does not count the ids.
	AnswerEnd() int
	// With is the backend of made prompts beside which a row has extra members, which Takes must have taken.
	With(extra []byte) Backend
	// OwnLength reports whether a row's extra members limit the length of the answer.
	OwnLength(extra []byte) bool
	// Takes returns why the API cannot send l; nil if it can. The other methods are for what it takes.
	Takes(l Verbatim) error
	// VerbatimSize is the exact number of bytes of the body of verbatim content.
	VerbatimSize(l Verbatim, outputTokens int) int
	// AppendVerbatim appends the body of verbatim content. 0 output tokens, also of AppendSuffix and Size, ask for no
	// number.
	AppendVerbatim(dst []byte, l Verbatim, outputTokens int) []byte
	// SaltSpan returns the place of the cache salt in a finished body, body[from:to]; 0, 0 if it has none.
	SaltSpan(body []byte) (from, to int)
	// ParseEvent resets d and fills it from the data of one server-sent event. d.Error aliases data. Empty data, a
	// heartbeat of some servers, leaves d empty.
	ParseEvent(data []byte, d *Delta) error
	// ParseBody resets d and fills it from a whole body: an answer that is not streamed, or an error. d.Error aliases
	// body.
	ParseBody(body []byte, d *Delta) error
}

// kind is an API as its file describes it.
type kind struct {
	name    string
	traits  Traits
	path    string // of whole answers; of streams too, if stream is empty. %s is the model's name
	stream  string // path of streams; "" = the same
	headers []Header
	shape   shape
	reads   dialect
}

// kinds lists the APIs, the default first.
func kinds() []kind {
	return []kind{completions(), chat(), responses(), embeddings(), messages(), tgi(), sglang(), vllmGenerate(),
		tritonVLLM(), tritonTRTLLM(), raw()}
}

// Names returns the names that New accepts, the default first.
func Names() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

func find(name string) (kind, error) {
	for _, k := range kinds() {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("unknown API %q: use one of %s", name, strings.Join(Names(), ", "))
}

// TraitsOf returns the properties of the named API.
func TraitsOf(name string) (Traits, error) {
	k, err := find(name)
	return k.traits, err
}

// Has reports whether requests to a path are the named backend's.
func Has(name, path string) bool {
	k, err := find(name)
	if err != nil || k.path == "" {
		return false
	}
	before, after, named := strings.Cut(k.path, "%s")
	if !named {
		return path == k.path || path == k.stream
	}
	return ModelAt(path) != "" && strings.HasPrefix(path, before) &&
		strings.HasSuffix(strings.TrimSuffix(path, "_stream"), after)
}

// AtPath names the backend of which requests go to a path, the first where several share it; "" where none does.
func AtPath(path string) string {
	for _, k := range kinds() {
		if path != "" && (path == k.path || path == k.stream) {
			return k.name
		}
	}
	return ""
}

// New returns the named backend.
func New(name string, o Options) (Backend, error) {
	k, err := find(name)
	switch {
	case err != nil:
		return nil, err
	case o.TokenIDs && !k.traits.TokenIDs:
		return nil, fmt.Errorf("the %s API takes no token ids: use text prompts, or the completions API", name)
	case o.Answers && !k.traits.Answers:
		return nil, fmt.Errorf("the %s API cannot be told an answer's tokens", name)
	case o.CacheSalt != "" && !k.traits.Salt:
		return nil, fmt.Errorf("the %s API has no cache_salt", name)
	case strings.Contains(k.path, "%s") && o.Model == "":
		return nil, fmt.Errorf("the %s API has the model's name in its path: give it with --model", name)
	}
	return newServer(k, o)
}

// server is the backend of any kind.
type server struct {
	body  // of prompts that are made
	kind  kind
	path  string
	o     Options
	extra members     // of the run
	of    [forms]body // of verbatim content without tools and extra
}

func newServer(k kind, o Options) (Backend, error) {
	s := &server{kind: k, path: k.path, o: o}
	if s.o.Stream = o.Stream && k.traits.Streams; s.o.Stream && k.stream != "" {
		s.path = k.stream
	}
	s.path = strings.Replace(s.path, "%s", o.Model, 1)
	if !k.traits.Model {
		s.o.Model = ""
	}
	var err error
	if s.extra, err = parseOurs(o.Extra); err == nil {
		err = k.shape.checkNest(s.extra)
	}
	if err != nil {
		return nil, fmt.Errorf("extra inputs: %w", err)
	}
	if err := checkSalt(o.CacheSalt); err != nil {
		return nil, err
	}
	if !s.o.Stream && s.extra.find("stream") >= 0 {
		return nil, errors.New(`extra inputs: "stream" beside --no-stream: leave one of them out`)
	}
	for form := range forms {
		s.of[form] = k.shape.bodyOf(s.o, s.around(form), s.extra)
	}
	s.body = s.of[Made]
	s.kind.traits.Sized = k.traits.Sized && !k.shape.saysLength(s.extra)
	return s, nil
}

func (s *server) OwnLength(extra []byte) bool { return s.kind.shape.ownLength(extra) }

func (s *server) Path() string { return s.path }

func (s *server) Traits() Traits { return s.kind.traits }

func (s *server) Headers() []Header { return s.kind.headers }

func (s *server) With(extra []byte) Backend {
	w := *s
	w.body = *s.verbatimBody(Verbatim{Extra: extra})
	return &w
}

func (s *server) ParseEvent(data []byte, d *Delta) error {
	return parseEvent(data, d, s.kind.reads)
}

func (s *server) ParseBody(body []byte, d *Delta) error { return parseBody(body, d, s.kind.reads) }
