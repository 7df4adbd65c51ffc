package engine

import (
	"bytes"
	"io"
	"strconv"
	"sync"
)

// ChunkLog writes a line of CSV for each token chunk: row, number of the chunk, its instant, the instant after the read
// that brought it, and what the server says in the chunk's own "sent_ns", empty where it says nothing. The instants of the
// client are ns since the run's start, the server's as it gave it (the mock's --quirk stamp: CLOCK_MONOTONIC; subtract the
// summary's monotonic_start_ns). It is for measuring the meter, so it costs memory, but time only between responses.
type ChunkLog struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewChunkLog writes the head of the table.
func NewChunkLog(w io.Writer) *ChunkLog {
	l := &ChunkLog{w: w}
	_, l.err = io.WriteString(w, "row,chunk,instant_ns,read_ns,sent_ns\n")
	return l
}

// Err is the first error of writing. Call it after the run.
func (l *ChunkLog) Err() error { return l.err }

// chunkLines are the lines of one reply.
type chunkLines struct {
	log   *ChunkLog // nil: off
	lines []byte
}

func (c *chunkLines) add(p *response, nowNS int64, data []byte) {
	if c.log == nil {
		return
	}
	b := strconv.AppendInt(c.lines, p.rec.Row, 10)
	for _, v := range []int64{p.rec.Chunks, nowNS, p.readNS} {
		b = strconv.AppendInt(append(b, ','), v, 10)
	}
	c.lines = append(append(append(b, ','), sentIn(data)...), '\n')
}

// sentIn is the number of a chunk's "sent_ns", as it stands there.
func sentIn(data []byte) []byte {
	_, after, _ := bytes.Cut(data, []byte(`"sent_ns":`))
	end := 0
	for end < len(after) && after[end] >= '0' && after[end] <= '9' {
		end++
	}
	return after[:end]
}

// flush hands the lines of a reply that has ended to the log.
func (c *chunkLines) flush() {
	if len(c.lines) == 0 {
		return
	}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	if c.log.err == nil {
		_, c.log.err = c.log.w.Write(c.lines)
	}
	c.lines = c.lines[:0]
}
