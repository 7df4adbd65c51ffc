package recorder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/sse"
	"github.com/fastreplay/fastreplay/codec/trace/chatml"
)

// Why a request is not in the file, as its head and the metrics call it. Others are those of a log that is converted.
const (
	lostAborted   = "aborted"   // the client or the server went away before the answer was whole
	lostFailed    = "failed"    // the server refused it, or sent it elsewhere
	lostMemory    = "memory"    // there was no room for it until its turn came
	lostTooLarge  = "too_large" // its body or its answer has more than maxBody
	lostEncoded   = "encoded"   // it is compressed
	lostMalformed = "malformed" // it is no request of an API
	lostDisk      = "disk"      // its row could not be written
)

// maxDepth bounds how far below another path an API's may be.
const maxDepth = 8

// maxBody bounds a body in bytes: 32 MiB hold a prompt of 5 million token ids.
const maxBody = 32 << 20

// budget bounds the bytes that are held of all requests together.
type budget struct {
	most int64
	used atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.most {
		return true
	}
	b.used.Add(-n)
	return false
}

// exchange is a request and its answer as they passed. Instants are ns on the recorder's clock.
type exchange struct {
	api     string // name of the backend whose path it went to
	named   names
	beganNS int64 // the request's head was there
	endedNS int64 // all has passed; 0 = not yet

	mu      sync.Mutex // a server may answer while the request's body is still read
	budget  *budget
	held    int64 // bytes of the budget
	request []byte
	answer  []byte
	reads   []read // of the answer
	status  int    // 0 = there was no answer
	whole   bool   // the answer came to its end
	lost    string // why it is not recorded; "" = it is, so far
}

// names are what headers tell of whoever asks.
type names struct {
	Session string            `json:"session_id,omitempty"`
	Owner   map[string]string `json:"owner,omitempty"`
}

// read is what one read of an answer brought.
type read struct {
	end  int // of the answer's bytes so far
	atNS int64
}

// lose gives up an exchange. The caller holds mu.
func (x *exchange) lose(why string) {
	if x.lost == "" {
		x.lost = why
	}
	x.request = nil
	x.answer = nil
	x.reads = nil
	x.budget.used.Add(-x.held)
	x.held = 0
}

// grow makes room for more in a list, of values of so many bytes, if the budget has it. Else the exchange is given up.
func grow[T any](x *exchange, list *[]T, more, size int) bool {
	need := len(*list) + more
	if need*size > maxBody {
		x.lose(lostTooLarge)
		return false
	}
	if need <= cap(*list) {
		return true
	}
	room := int64(max(need, 2*cap(*list), 64)-cap(*list)) * int64(size)
	if !x.budget.take(room) {
		x.lose(lostMemory)
		return false
	}
	x.held += room
	*list = append(make([]T, 0, cap(*list)+int(room)/size), *list...)
	return true
}

// asked takes a piece of the request's body.
func (x *exchange) asked(p []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost == "" && x.endedNS == 0 && grow(x, &x.request, len(p), 1) {
		x.request = append(x.request, p...)
	}
}

// answered takes a piece of the answer.
func (x *exchange) answered(p []byte, atNS int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost == "" && grow(x, &x.answer, len(p), 1) && grow(x, &x.reads, 1, 16) {
		x.answer = append(x.answer, p...)
		x.reads = append(x.reads, read{len(x.answer), atNS})
	}
}

// end notes that nothing more will pass.
func (x *exchange) end(nowNS int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endedNS = nowNS
	switch {
	case x.lost != "":
	case x.status >= 300:
		x.lose(lostFailed)
	case !x.whole:
		x.lose(lostAborted)
	}
}

// release gives back what the exchange holds.
func (x *exchange) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lose(x.lost)
}

// tap is a body of which each piece is also taken. Behind its end it is not read again. A server of net/http has closed
// the body of a request by then, which a transport would take for a failure.
type tap struct {
	io.ReadCloser
	begin func()         // before the first piece; nil = it was, or nothing is to do
	take  func(p []byte) // nil = it is not recorded
	end   func()         // in place of Close; nil = there is none
	over  error          // io.EOF = it was read whole
}

func (t *tap) Read(p []byte) (int, error) {
	if t.over != nil {
		return 0, t.over
	}
	if t.begin != nil {
		t.begin()
		t.begin = nil
	}
	n, err := t.ReadCloser.Read(p)
	t.over = err
	if t.take != nil && n > 0 {
		t.take(p[:n])
	}
	return n, err
}

// Close implements io.Closer.
func (t *tap) Close() error {
	if t.end == nil {
		return t.ReadCloser.Close()
	}
	t.end()
	return nil
}

// maxPaths bounds the paths that are remembered.
const maxPaths = 1024

// paths finds out which backend speaks at a path, and remembers it.
type paths struct {
	mu    sync.Mutex
	known map[string]string
}

// apiOf names the backend that speaks at a path, perhaps below another path; "" = none that generates.
func (p *paths) apiOf(path string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, known := p.known[path]
	if !known {
		if len(p.known) >= maxPaths || p.known == nil {
			p.known = map[string]string{}
		}
		name = findAPI(path)
		p.known[path] = name
	}
	return name
}

func findAPI(path string) string {
	for range maxDepth {
		for _, name := range api.Names() {
			if traits, _ := api.TraitsOf(name); traits.Generates && api.Has(name, path) {
				return name
			}
		}
		_, below, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if !more {
			break
		}
		path = "/" + below
	}
	return ""
}

// compressed reports whether a body is said to be.
func compressed(h http.Header) bool {
	how := h.Get("Content-Encoding")
	return how != "" && !strings.EqualFold(how, "identity")
}

// backends are those that read answers.
func backends() map[string]api.Backend {
	all := map[string]api.Backend{}
	for _, name := range api.Names() {
		b, err := api.New(name, api.Options{Model: "any", Stream: true})
		if err != nil {
			panic("BUG: a backend of an API is refused: " + err.Error())
		}
		all[name] = b
	}
	return all
}

// zeroNS is what a log has for the clock's zero, in ns since 1970. Rows have only what lies between their instants.
const zeroNS = 1e18

// logged is a line of a log, the format of which is openai_log. Instants are ns since 1970, 0 = unknown.
type logged struct {
	Request  json.RawMessage `json:"request"`
	Came     int64           `json:"timestamp"`
	Response any             `json:"response"`
	First    int64           `json:"first_token_time,omitempty"`
	Ended    int64           `json:"end_time,omitempty"`
	names
}

// logTo writes the exchange as a line of a log, with instants that are exact to 1 µs. It says why the exchange is lost;
// "" = it is not.
func (x *exchange) logTo(log *json.Encoder, backends map[string]api.Backend) (lost string) {
	var s stream
	line := logged{Request: x.request, names: x.named}
	text := bytes.TrimSpace(x.answer)
	switch {
	case x.status == 0:
		line.Response = map[string]any{"usage": map[string]int{"completion_tokens": x.most()}}
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		if json.Valid(text) {
			line.Response = json.RawMessage(text)
			s.lastNS = x.reads[len(x.reads)-1].atNS
		}
	default:
		s = x.stream(backends)
		if s.lastNS > 0 && !s.ended {
			return lostAborted
		}
		line.Response = s.events
	}
	stamp := func(atNS int64) int64 {
		if atNS == 0 {
			return 0
		}
		return (zeroNS + atNS) / 1000 * 1000
	}
	line.Came = stamp(x.beganNS)
	line.First = stamp(s.firstNS)
	line.Ended = stamp(s.lastNS)
	if log.Encode(line) != nil {
		return lostMalformed
	}
	return ""
}

// most is how many tokens the request asks for at most, 1 if it does not say. A copy of a request tells no more of its
// answer.
func (x *exchange) most() int {
	for _, key := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens",
		"parameters.max_new_tokens", "parameters.max_tokens", "sampling_params.max_new_tokens",
		"sampling_params.max_tokens"} {
		n, err := strconv.Atoi(string(api.Field(x.request, strings.Split(key, "."))))
		if err == nil && n > 0 {
			return n
		}
	}
	return 1
}

// goesOn reports whether the request may name the response before it, in any spelling that readers of JSON take. Nobody
// needs to escape a letter of the key.
func (x *exchange) goesOn() bool {
	for _, spelled := range []string{chatml.BeforeKey, `\u005`, `\u006`, `\u007`} {
		if bytes.Contains(x.request, []byte(spelled)) {
			return true
		}
	}
	return false
}

// stream is what a streamed answer tells.
type stream struct {
	events  []json.RawMessage // their data
	firstNS int64             // when the first token of the first choice came; 0 = unknown
	lastNS  int64             // when the last one did
	ended   bool              // the answer marks its end, or its API has no mark
}

// stream reads a streamed answer up to the mark of its end.
func (x *exchange) stream(backends map[string]api.Backend) (s stream) {
	backend := backends[x.api]
	if x.api == "tgi" && api.Field(x.request, []string{"inputs"}) == nil { // SGLang has the path, too
		backend = backends["sglang"]
	}
	s.ended = !backend.Traits().Marks
	var events sse.Scanner
	var d api.Delta
	var textNS int64            // when the first text came
	var chunks, empty, told int // with tokens; of them those before any text; tokens as the server counts
	for at := 0; !d.Done; {
		data, n, ok, _ := events.Next(x.answer[at:])
		at += n
		if !ok {
			data, ok = events.Finish()
		}
		if !ok {
			break
		}
		_ = backend.ParseEvent(data, &d) // what it cannot read is no token
		s.ended = s.ended || d.Done || d.Finish != ""
		if json.Valid(data) {
			s.events = append(s.events, slices.Clone(data))
		}
		if d.IsError || events.Failed() {
			s.ended = true
			s.events = append(s.events, json.RawMessage(`{"error":true}`))
		}
		told = max(d.CompletionTokens, told+max(0, d.MoreTokens))
		if !d.Token || d.Choices > 0 && d.Choices&1 == 0 {
			continue
		}
		i := sort.Search(len(x.reads), func(i int) bool { return x.reads[i].end >= at })
		s.lastNS = x.reads[min(i, len(x.reads)-1)].atNS
		s.firstNS = cmp.Or(s.firstNS, s.lastNS)
		chunks++
		if d.Text {
			textNS = cmp.Or(textNS, s.lastNS)
		}
		if textNS == 0 {
			empty++
		}
	}
	if empty > 0 && told > 0 && told <= chunks-empty { // the server counts no tokens for what it began with
		s.firstNS = textNS
	}
	return s
}

// sessionHeaders name the session of a request, the first that is there.
func sessionHeaders() [2]string { return [...]string{"X-Session-Id", "X-Dynamo-Session-Id"} }
