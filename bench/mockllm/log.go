package mockllm

import (
	"fmt"
	"io"
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
	r.ending = how
	l.pending = append(logTemplate().append(r, l.pending), '\n')
}

// logTemplate is what the log says of a request.
var logTemplate = sync.OnceValue(func() template {
	return parseTemplate(`{"request_id":"$id","arrival_ns":$arrival_ns,"arrived_ns":$arrived_ns,"begin_ns":$begin_ns,` +
		`"first_token_ns":$first_ns,"last_token_ns":$last_ns,"done_ns":$done_ns,"status":<answered|$status|null>,` +
		`"prompt_tokens":<read|$prompt|null>,` +
		`"cached_tokens":<begun|$cached|null>,<tiers|"host_tokens":$host,>` +
		`"completion_tokens":<begun|$output|null>,"model":"$model","priority":$priority,<adapter|"load_ns":$load_ns,>` +
		`<split|"prefill_instance":$prefiller,>` +
		`"api":"$api","peer":"$peer",` +
		`"fault":<faulty|"$fault"|null>,"end":"$ending"` +
		`<all|,"token_ns":[$token_instants],"body":<read|$body|null>,"headers":<read|$headers|null>>}`)
})
