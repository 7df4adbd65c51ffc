package main

import (
	"bytes"
	"container/heap"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// due is when a connection's next token leaves.
type due struct {
	at int64
	c  *conn
}

// dueHeap has the earliest first.
type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// send sends the next token of c, or the whole of an answer that is not streamed.
func (s *server) send(c *conn) {
	if c.closed {
		return
	}
	e := c.entry
	if c.stream {
		c.out = c.appendToken(c.out)
		c.sent++
	} else {
		c.out = c.appendWhole(c.out)
		c.sent = e.Tokens
	}
	if s.keep {
		e.TokenNS = append(e.TokenNS, now())
	}
	s.flush(c)
	if c.closed {
		return
	}
	if c.sent < e.Tokens {
		// The plan counts from the first token, so that a late one does not delay those after it.
		at := e.WholeNS + int64(s.ttft+s.tpot*time.Duration(c.sent))
		heap.Push(&s.due, due{max(at, now()+1), c})
		return
	}
	e.DoneNS = now()
	c.entry = nil
	s.ready(c, 0) // what was pipelined
}

// appendToken appends a chunk with one event, before the first the head, after the last the end.
func (c *conn) appendToken(out []byte) []byte {
	if c.sent == 0 {
		out = append(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"...)
	}
	kind, delta, finish := "text_completion", `"text":" of"`, "null"
	if c.chat {
		kind, delta = "chat.completion.chunk", `"delta":{"role":"assistant","content":" of"}`
	}
	last := c.sent == c.entry.Tokens-1
	if last {
		finish = `"length"`
	}
	const head = `data: {"id":"recorder","object":"%s","created":1700000000,"model":"model","choices":[`
	event := fmt.Appendf(nil, head+`{"index":0,%s,"logprobs":null,"finish_reason":%s}]}`+"\n\n", kind, delta, finish)
	if last && c.usage {
		event = fmt.Appendf(event, head+`],"usage":%s}`+"\n\n", kind, c.usageJSON())
	}
	if last {
		event = append(event, "data: [DONE]\n\n"...)
	}
	out = fmt.Appendf(out, "%x\r\n%s\r\n", len(event), event)
	if last {
		out = append(out, "0\r\n\r\n"...)
	}
	return out
}

func (c *conn) appendWhole(out []byte) []byte {
	text := bytes.Repeat([]byte(" of"), c.entry.Tokens)
	kind, choice := "text_completion", fmt.Sprintf(`"text":"%s"`, text)
	if c.chat {
		kind, choice = "chat.completion", fmt.Sprintf(`"message":{"role":"assistant","content":"%s"}`, text)
	}
	body := fmt.Sprintf(
		`{"id":"recorder","object":"%s","created":1700000000,"model":"model","choices":[{"index":0,%s,"finish_reason":"length"}],"usage":%s}`,
		kind,
		choice,
		c.usageJSON(),
	)
	return appendJSON(out, "200 OK", body)
}

// appendJSON appends a whole response.
func appendJSON(out []byte, status, body string) []byte {
	const head = "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
	return fmt.Appendf(out, head+"%s", status, len(body), body)
}

func (c *conn) usageJSON() string {
	return fmt.Sprintf(
		`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`,
		c.prompt,
		c.entry.Tokens,
		c.prompt+c.entry.Tokens,
	)
}

// flush writes what it can. What does not fit leaves when epoll says that there is room.
func (s *server) flush(c *conn) {
	for len(c.out) > 0 {
		n, err := unix.Write(c.fd, c.out)
		if err == unix.EAGAIN {
			_ = s.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLOUT)
			return
		}
		if err != nil {
			s.drop(c)
			return
		}
		c.out = c.out[:copy(c.out, c.out[n:])]
		if len(c.out) == 0 && n > 0 {
			_ = s.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLIN|unix.EPOLLRDHUP)
		}
	}
}

// valueOf is what follows a key, without the space before it. A quoted text has its quotes escaped, so no prompt holds a key.
func valueOf(body []byte, key string) []byte {
	_, after, _ := bytes.Cut(body, []byte(`"`+key+`"`))
	return bytes.TrimLeft(after, ": \n")
}

func isTrue(body []byte, key string) bool { return bytes.HasPrefix(valueOf(body, key), []byte("true")) }

func numberAt(body []byte, key string) int {
	n := 0
	for _, c := range valueOf(body, key) {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// promptTokens is the length of a prompt of token ids, and roughly that of text: its words.
func promptTokens(body []byte) int {
	prompt := valueOf(body, "prompt")
	if bytes.HasPrefix(prompt, []byte("[")) {
		ids, _, _ := bytes.Cut(prompt, []byte("]"))
		return bytes.Count(ids, []byte(",")) + 1
	}
	if len(prompt) == 0 {
		prompt = valueOf(body, "messages")
	}
	return bytes.Count(prompt, []byte(" ")) + 1
}
