// Package api writes request bodies for LLM servers and reads what they answer, one file a backend.
//
// It owns paths, bodies and the meaning of an event's JSON. It does not own prompts (they come as JSON-ready bytes), HTTP,
// sockets, clocks or the policy of what a missing field means.
//
// A [Backend] is immutable: any goroutine may use it. Appending and parsing allocate nothing, save for a finish reason that
// no known server sends and for the error about malformed JSON.
package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Options say how every body of a run is made. The zero value asks for a whole answer of the server's default model.
type Options struct {
	Model       string          // left out where empty
	Stream      bool            // ask for server-sent events with usage at their end
	ForceOutput bool            // ask for exactly the output tokens (min_tokens, ignore_eos), not at most
	Extra       json.RawMessage // an object merged at the top level, as ParseExtra returns it; its keys win over ours
	CacheSalt   string          // "" = none; letters, digits, - and _
	TokenIDs    bool            // prompts are token ids "1,2,3", not text
}

// Backend is one server API.
type Backend interface {
	// Path is where requests go, such as "/v1/completions".
	Path() string
	// Size is the exact number of bytes of a body.
	Size(promptBytes, outputTokens int) int
	// AppendPrefix appends a body up to where the prompt's bytes go.
	AppendPrefix(dst []byte) []byte
	// AppendSuffix appends the rest of the body, from after the prompt's bytes on.
	AppendSuffix(dst []byte, outputTokens int) []byte
	// With is the backend of made prompts beside which a row has extra members, which Takes must have taken.
	With(extra []byte) Backend
	// Takes tells why the API cannot send a literal; nil if it can. The others are for literals that it takes.
	Takes(l Literal) error
	// LiteralSize is the exact number of bytes of a literal's body.
	LiteralSize(l Literal, outputTokens int) int
	// AppendLiteral appends a literal's body. 0 output tokens, also of AppendSuffix and Size, ask for no number.
	AppendLiteral(dst []byte, l Literal, outputTokens int) []byte
	// SaltSpan tells where the cache salt lies in a finished body, as body[from:to]; 0, 0 where there is none.
	SaltSpan(body []byte) (from, to int)
	// ParseEvent resets d and fills it from the data of one server-sent event. d.Error aliases data. Empty data, a
	// heartbeat of some servers, says nothing.
	ParseEvent(data []byte, d *Delta) error
	// ParseBody resets d and fills it from a whole body: an answer that is not streamed, or an error. d.Error aliases body.
	ParseBody(body []byte, d *Delta) error
}

// Names returns the backends that New knows, the default first.
func Names() []string { return []string{"completions", "chat"} }

// AtPath names the backend of which requests go to a path; "" where none does.
func AtPath(path string) string {
	for _, name := range Names() {
		if b, err := New(name, Options{}); err == nil && b.Path() == path {
			return name
		}
	}
	return ""
}

// New returns the named backend.
func New(name string, o Options) (Backend, error) {
	switch name {
	case "completions":
		return newCompletions(o)
	case "chat":
		return newChat(o)
	}
	return nil, fmt.Errorf("unknown API %q: use one of %s", name, strings.Join(Names(), ", "))
}
