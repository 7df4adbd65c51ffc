package bench

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/mockllm"
	"github.com/fastreplay/fastreplay/bench/must"
)

// What follows writes every byte of its answers by hand. It relies on nothing of the client but the RFCs and the
// servers' APIs.

// sweepTokens is how many tokens an answer has, sweepPrompt what it says of the prompt.
const (
	sweepTokens = 3
	sweepPrompt = 77
	sweepWords  = "the block pool is empty"
)

// sweepEvent is one event of a stream: what is written, and what it means.
type sweepEvent struct {
	text                 string
	token, finish, fails bool
}

// sweepAPI is how an API answers.
type sweepAPI struct {
	events []sweepEvent
	whole  string // an answer in one piece
	error  string // an error event
	marks  bool   // answers say when they are finished
	counts bool   // a stream tells how many tokens it has
	tells  bool   // so does a whole answer
	loose  bool   // any answer is taken for one
}

func sweepData(format string, args ...any) string {
	return "data: " + fmt.Sprintf(format, args...) + "\n\n"
}

// sweepNamed is an event with a name, which its data repeats.
func sweepNamed(name, members string) string {
	return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + members + "}\n\n"
}

func sweepAPIs() map[string]sweepAPI {
	const failure = `{"error":{"message":"` + sweepWords + `","code":500}}`
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":9}`, sweepPrompt, sweepTokens)
	input := fmt.Sprintf(`"usage":{"input_tokens":%d,"output_tokens":%d}`, sweepPrompt, sweepTokens)
	done := sweepEvent{text: "data: [DONE]\n\n", finish: true}
	completions := sweepAPI{
		whole: `{"id":"x","choices":[{"index":0,"text":"a b c","finish_reason":"length"}],` + usage + `}`, error: sweepData("%s", failure),
		marks: true, counts: true, tells: true,
	}
	chat, responses, messages, tgi, sglang, triton, trtllm, vllm := completions, completions, completions, completions, completions, completions, completions, completions
	chat.events = []sweepEvent{{text: sweepData(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)}}
	responses.events = []sweepEvent{{text: sweepNamed("response.created", `,"response":{"status":"in_progress"}`)}}
	messages.events = []sweepEvent{
		{text: sweepNamed("message_start", fmt.Sprintf(`,"message":{"role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":%d,"output_tokens":1}}`, sweepPrompt))},
		{text: sweepNamed("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)},
	}
	for i := range sweepTokens {
		last := i == sweepTokens-1
		add := func(a *sweepAPI, finish bool, text string) {
			a.events = append(a.events, sweepEvent{text: text, token: true, finish: finish})
		}
		add(&completions, false, sweepData(`{"choices":[{"index":0,"text":" t%d","finish_reason":null}]}`, i))
		add(&vllm, false, sweepData(`{"request_id":"x","usage":null,"output_mode":"tokens","choices":[{"index":0,"token_ids":[%d],"finish_reason":null}]}`, 10_000+i))
		add(&chat, false, sweepData(`{"choices":[{"index":0,"delta":{"content":" t%d"},"finish_reason":null}]}`, i))
		add(&responses, false, sweepNamed("response.output_text.delta", fmt.Sprintf(`,"delta":" t%d"`, i)))
		add(&messages, false, sweepNamed("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":" t%d"}`, i)))
		add(&trtllm, false, sweepData(`{"model_name":"m","text_output":" t%d"}`, i))
		if !last {
			add(&tgi, false, sweepData(`{"index":%d,"token":{"id":5,"text":" t%d","special":false},"generated_text":null,"details":null}`, i, i))
			add(&sglang, false, sweepData(`{"text":"%s","meta_info":{"finish_reason":null,"prompt_tokens":%d,"completion_tokens":%d}}`, strings.Repeat(" t", i+1), sweepPrompt, i+1))
			add(&triton, false, sweepData(`{"text_output":" t%d","finish_reason":"None","num_input_tokens":%d,"num_output_tokens":1}`, i, sweepPrompt))
			continue
		}
		add(&tgi, true, sweepData(`{"index":%d,"token":{"id":5,"text":" t","special":false},"generated_text":" t","details":{"finish_reason":"length","generated_tokens":%d,"input_length":%d}}`, i, sweepTokens, sweepPrompt))
		add(&sglang, true, sweepData(`{"text":" t t t","meta_info":{"finish_reason":{"type":"length","length":3},"prompt_tokens":%d,"completion_tokens":%d}}`, sweepPrompt, sweepTokens))
		add(&triton, true, sweepData(`{"text_output":" t%d","finish_reason":"length","num_input_tokens":%d,"num_output_tokens":1}`, i, sweepPrompt))
	}
	completions.events = append(completions.events, sweepEvent{text: sweepData(`{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`), finish: true},
		sweepEvent{text: sweepData(`{"choices":[],%s}`, usage)}, done)
	vllm.events = append(vllm.events, sweepEvent{text: sweepData(`{"request_id":"x","usage":null,"output_mode":"tokens","choices":[{"index":0,"token_ids":[],"finish_reason":"length"}]}`), finish: true},
		sweepEvent{text: sweepData(`{"request_id":"x","output_mode":"tokens","choices":[],%s}`, usage)}, done)
	vllm.whole = `{"request_id":"x","choices":[{"index":0,"token_ids":[10000,10001,10002],"finish_reason":"length"}],` + usage + `}`
	chat.events = append(chat.events, sweepEvent{text: sweepData(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`), finish: true},
		sweepEvent{text: sweepData(`{"choices":[],%s}`, usage)}, done)
	chat.whole = `{"choices":[{"index":0,"message":{"role":"assistant","content":"a b c"},"finish_reason":"length"}],` + usage + `}`
	ended := `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],` + input + `}`
	responses.events = append(responses.events, sweepEvent{text: sweepNamed("response.incomplete", `,"response":`+ended), finish: true})
	responses.whole, responses.error = ended, sweepNamed("error", `,"code":"server_error","message":"`+sweepWords+`"`)
	messages.events = append(messages.events, sweepEvent{text: sweepNamed("content_block_stop", `,"index":0`)},
		sweepEvent{text: sweepNamed("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":%d}`, sweepTokens)), finish: true},
		sweepEvent{text: sweepNamed("message_stop", ""), finish: true})
	messages.whole = `{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}],"stop_reason":"max_tokens",` + input + `}`
	messages.error = sweepNamed("error", `,"error":{"type":"overloaded_error","message":"`+sweepWords+`"}`)
	tgi.whole = fmt.Sprintf(`{"generated_text":"a","details":{"finish_reason":"length","generated_tokens":%d,"tokens":[]}}`, sweepTokens)
	tgi.error = `data:{"error":"` + sweepWords + `","error_type":"overloaded"}` + "\n\n"
	sglang.events = append(sglang.events, done)
	sglang.whole = fmt.Sprintf(`{"text":"a","meta_info":{"finish_reason":{"type":"length","length":3},"prompt_tokens":%d,"completion_tokens":%d}}`, sweepPrompt, sweepTokens)
	triton.whole = fmt.Sprintf(`{"text_output":"a","finish_reason":"length","num_input_tokens":%d,"num_output_tokens":%d}`, sweepPrompt, sweepTokens)
	triton.error = sweepData(`{"error":"` + sweepWords + `"}`)
	triton.marks = false
	trtllm.whole, trtllm.error, trtllm.marks, trtllm.counts, trtllm.tells = `{"text_output":"a"}`, triton.error, false, false, false
	embeddings := sweepAPI{marks: true, whole: fmt.Sprintf(`{"object":"list","data":[{"embedding":[0.5,1]}],"usage":{"prompt_tokens":%d}}`, sweepPrompt)}
	raw := completions
	raw.marks, raw.loose = false, true
	return map[string]sweepAPI{"completions": completions, "chat": chat, "responses": responses, "embeddings": embeddings, "messages": messages, "tgi": tgi,
		"sglang": sglang, "vllm-generate": vllm, "triton-vllm": triton, "triton-trtllm": trtllm, "raw": raw}
}

// sweepWire is an answer as it goes over the wire.
type sweepWire struct {
	head, all []byte
	ends      []int // where each event, or the whole body, has come
	untilEnd  bool  // it ends with the connection
	gzip      bool
}

// sweepFramings are the ways to send a body.
var sweepFramings = []string{"chunked", "chunks of 37", "length", "until end", "chunked gzip", "until end gzip", "length gzip"}

// frame puts pieces of a body behind a head.
func frame(framing, head string, pieces []string) sweepWire {
	w := sweepWire{untilEnd: strings.HasPrefix(framing, "until end"), gzip: strings.HasSuffix(framing, "gzip")}
	if w.gzip {
		head += "Content-Encoding: gzip\r\n"
		pieces = compressed(pieces)
	}
	body := strings.Join(pieces, "")
	switch {
	case strings.HasPrefix(framing, "chunk"):
		head += "Transfer-Encoding: chunked\r\n"
	case !w.untilEnd:
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	w.head = []byte(head + "\r\n")
	w.all = append(w.all, w.head...)
	switch framing {
	case "chunks of 37":
		at, end := 0, 0
		for _, p := range pieces {
			end += len(p)
			for end > at || end == len(body) && at < end {
				n := min(37, len(body)-at)
				w.all = fmt.Appendf(w.all, "%x\r\n%s\r\n", n, body[at:at+n])
				at += n
			}
			w.ends = append(w.ends, len(w.all))
		}
	case "chunked", "chunked gzip":
		for _, p := range pieces {
			w.all = fmt.Appendf(w.all, "%x\r\n%s\r\n", len(p), p)
			w.ends = append(w.ends, len(w.all))
		}
	default:
		for _, p := range pieces {
			w.all = append(w.all, p...)
			w.ends = append(w.ends, len(w.all))
		}
		return w
	}
	w.all = append(w.all, "0\r\n\r\n"...)
	return w
}

// compressed is each piece as a gzip stream has it that is flushed after it; the last one ends the stream.
func compressed(pieces []string) (out []string) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i, p := range pieces {
		_, _ = io.WriteString(z, p)
		_ = z.Flush()
		if i == len(pieces)-1 {
			_ = z.Close()
		}
		out = append(out, b.String())
		b.Reset()
	}
	return out
}

// sweepAttempt is what the server notes of a request that has come.
type sweepAttempt struct {
	cell  *sweepCell
	read  bool         // all of it: whatever a server does with a request, it may have done
	cut   bool         // a reset may have destroyed the end of the answer
	wrote atomic.Int64 // when it had written all that it would, ns of the wall clock; 0: not yet
}

// sweepServer commits one cell after the other, a request each.
type sweepServer struct {
	net.Listener
	tls   *tls.Config
	cells []*sweepCell
	stall time.Duration // longer than the client's patience

	next     atomic.Int64
	accepted atomic.Int64
	kept     atomic.Int64
	open     sync.WaitGroup

	mu       sync.Mutex
	log      map[string][]*sweepAttempt
	nameless int // connections that were ended when a request may have been on its way
	wrong    []string
	starved  bool // the machine had no time for this process: how many connections were taken in time says nothing then

	startedAt time.Time // of the run, when it is over
	late      int       // requests that the client gave up, rightly, before they were answered
}

func startSweepServer(t *testing.T, cells []*sweepCell, encrypted bool, stall time.Duration) *sweepServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	s := &sweepServer{Listener: ln, cells: cells, stall: stall, log: map[string][]*sweepAttempt{}}
	if encrypted {
		s.tls, _, err = mockllm.SelfSigned("")
		must.Do(t, err)
	}
	s.open.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.open.Go(func() { s.serve(c.(*net.TCPConn)) })
		}
	})
	return s
}

// sweepConn is a connection as the server has it.
type sweepConn struct {
	net.Conn // with TLS, if any
	tcp      *net.TCPConn
	in       *bufio.Reader
	id       string // of the request that came last …
	stallFor time.Duration
	attempt  *sweepAttempt // … and what became of it
}

// fin ends the connection in good order, rst breaks it off; cut leaves out TLS's goodbye; stall says nothing any more.
func (c *sweepConn) fin() { _ = c.Close() }
func (c *sweepConn) cut() { _ = c.tcp.Close() }
func (c *sweepConn) rst() { _ = c.tcp.SetLinger(0); _ = c.tcp.Close() }
func (c *sweepConn) hang() {
	c.attempt.wrote.Store(time.Now().UnixNano())
	_ = c.SetReadDeadline(time.Now().Add(c.stallFor))
	_, _ = io.Copy(io.Discard, c.in) // until the client gives up
	_ = c.Close()
}

// The faults of a connection come with every so many connections and answers, whatever the requests.
const (
	sweepEachConn  = 41
	sweepEachReuse = 29
)

func (s *sweepServer) serve(tcp *net.TCPConn) {
	c := &sweepConn{Conn: tcp, tcp: tcp, stallFor: s.stall}
	defer func() { _ = tcp.Close() }()
	switch n := s.accepted.Add(1); n % sweepEachConn {
	case 7:
		s.nobody()
		c.fin()
		return
	case 17:
		s.nobody()
		c.rst()
		return
	case 27: // it takes the connection and never reads
		s.nobody()
		time.Sleep(s.stall)
		return
	}
	if s.tls != nil {
		c.Conn = tls.Server(tcp, s.tls)
	}
	c.in = bufio.NewReader(c)
	for s.one(c) {
		switch n := s.kept.Add(1); n % sweepEachReuse {
		case 3:
			s.nobody()
			c.fin()
			return
		case 13:
			s.nobody()
			s.mu.Lock()
			c.attempt.cut = true // what the kernel still has of the answer is lost
			s.mu.Unlock()
			c.rst()
			return
		case 23:
			s.nobody()
			awaitBytes(tcp)
			c.fin() // with a request unread: that resets
			return
		case 26: // between two requests, later
			s.nobody()
			_ = tcp.SetReadDeadline(time.Now().Add(time.Millisecond))
			awaitBytes(tcp)
			c.fin()
			return
		}
	}
}

// nobody notes that a connection ends and that the server will not know whose request that hits, if one's.
func (s *sweepServer) nobody() {
	s.mu.Lock()
	s.nameless++
	s.mu.Unlock()
}

// awaitBytes returns when something has come that nobody has read, or the connection's time is up.
func awaitBytes(tcp *net.TCPConn) {
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
			return err != syscall.EAGAIN
		})
	}
}

// one takes a request and answers it. False: the connection is over.
func (s *sweepServer) one(c *sweepConn) bool {
	id, length, err := readHead(c.in)
	if err != nil {
		if err != io.EOF && id != "" {
			s.complain("%s: half a request: %v", id, err)
		}
		return false
	}
	c.id = id
	cell := s.cells[int(s.next.Add(1)-1)%len(s.cells)]
	a := &sweepAttempt{cell: cell}
	c.attempt = a
	if cell.early == nil {
		if _, err := io.CopyN(io.Discard, c.in, length); err != nil {
			s.note(id, a)
			return false // the client was interrupted, or has died
		}
		a.read = true
	}
	s.note(id, a)
	keep := true
	if cell.early != nil {
		keep = cell.early(c, length)
	} else {
		keep = cell.play(c)
	}
	a.wrote.CompareAndSwap(0, time.Now().UnixNano())
	if !keep && (slices.Contains(cell.want, "ok") || slices.Contains(cell.want, "http_error") || slices.Contains(cell.want, "stream_error")) {
		s.nobody() // the client may have thought that it could send another request
	}
	return keep
}

func (s *sweepServer) note(id string, a *sweepAttempt) {
	s.mu.Lock()
	s.log[id] = append(s.log[id], a)
	s.mu.Unlock()
}

func (s *sweepServer) complain(format string, args ...any) {
	s.mu.Lock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	s.mu.Unlock()
}

// readHead reads a request's head: its id and the length of its body.
func readHead(in *bufio.Reader) (id string, length int64, err error) {
	for first := true; ; first = false {
		line, err := in.ReadString('\n')
		if err != nil {
			return id, 0, err
		}
		line = strings.TrimSuffix(line, "\r\n")
		if line == "" {
			return id, length, nil
		}
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case first:
		case !ok:
			return id, 0, fmt.Errorf("header %q", line)
		case strings.EqualFold(name, "X-Request-Id"):
			id = value
		case strings.EqualFold(name, "Content-Length"):
			if length, err = strconv.ParseInt(value, 10, 64); err != nil {
				return id, 0, err
			}
		}
	}
}

// drip writes a byte after the other.
func (c *sweepConn) drip(b []byte) {
	for i := range b {
		_, _ = c.Write(b[i : i+1])
	}
}

// inTwo writes what is before and after a place apart.
func (c *sweepConn) inTwo(b []byte, at int) {
	_, _ = c.Write(b[:at])
	time.Sleep(100 * time.Microsecond) // so that the client mostly reads them apart; nothing depends on it
	_, _ = c.Write(b[at:])
}
