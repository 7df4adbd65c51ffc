package mockllm

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// logFlush is how often the request log reaches its writer.
const logFlush = 100 * time.Millisecond

// maxLogBytes bounds the lines that wait for their writer; more are dropped and counted.
const maxLogBytes = 256 << 20

// requestLog collects a line for each request and writes them from one goroutine, so that a slow disk never delays an
// event. What could not be written is kept and tried again; close reports what is wrong at the end.
type requestLog struct {
	w    io.Writer
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	pending []byte
	writing []byte
	err     error
	dropped int // lines
}

func newRequestLog(w io.Writer) *requestLog {
	l := &requestLog{w: w, stop: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

func (l *requestLog) run() {
	defer close(l.done)
	tick := time.NewTicker(logFlush)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.flush()
		case <-l.stop:
			l.flush()
			return
		}
	}
}

func (l *requestLog) flush() {
	l.mu.Lock()
	l.pending, l.writing = l.writing[:0], l.pending
	l.mu.Unlock()
	if len(l.writing) == 0 {
		return
	}
	n, err := l.w.Write(l.writing)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	if err != nil { // keep the rest, before what came meanwhile
		l.pending = append(append([]byte(nil), l.writing[n:]...), l.pending...)
	}
	l.writing = l.writing[:0]
}

func (l *requestLog) close() error {
	close(l.stop)
	<-l.done
	if l.dropped > 0 {
		return fmt.Errorf("%d lines dropped: %w", l.dropped, l.err)
	}
	return l.err
}

// add appends the line of a request that has ended.
func (l *requestLog) add(r *reply, how ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) > maxLogBytes {
		l.dropped++
		return
	}
	b := append(l.pending, `{"request_id":"`...)
	b = appendEscaped(b, r.id)
	b = append(b, `","arrival_ns":`...)
	b = strconv.AppendInt(b, r.arrivalNS, 10)
	b = appendNumber(b, "arrived_ns", r.arrivedNS)
	b = appendNumber(b, "begin_ns", r.beginNS)
	b = appendNumber(b, "first_token_ns", r.firstNS)
	b = appendNumber(b, "last_token_ns", r.lastTokenNS)
	b = appendNumber(b, "done_ns", r.doneNS)
	b = appendNumber(b, "status", int64(r.status))
	b = appendNumber(b, "prompt_tokens", int64(r.promptTokens))
	if r.begun {
		b = append(b, `,"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(r.cachedTokens), 10)
		b = append(b, `,"completion_tokens":`...)
		b = strconv.AppendInt(b, int64(r.sent), 10)
	} else {
		b = append(b, `,"cached_tokens":null,"completion_tokens":null`...)
	}
	b = append(b, `,"api":"`...)
	b = append(b, r.api.traits().name...)
	b = append(b, `","peer":"`...)
	b = append(b, r.c.peer...)
	b = append(b, `","fault":`...)
	if r.fault.Kind == "" {
		b = append(b, "null"...)
	} else {
		b = append(b, '"')
		b = append(b, r.fault.Kind...)
		b = append(b, '"')
	}
	b = append(b, `,"end":"`...)
	b = append(b, how...)
	l.pending = append(b, "\"}\n"...)
}

// appendNumber appends a number that is never 0, so that 0 is null.
func appendNumber(dst []byte, key string, v int64) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, key...)
	dst = append(dst, `":`...)
	if v == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, v, 10)
}
