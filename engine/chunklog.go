package engine

import (
	"bytes"
	"io"
	"strconv"
	"sync"

	"github.com/fastreplay/fastreplay/codec/record"
)

// ChunkLog writes a line of CSV for each token chunk: row, number of the chunk, its instant, and the instant after
// its read. The last column is the value of the chunk's own "sent_ns", empty if it has none. The client's instants
// are ns since the run's start. The server's is as the server gave it (the mock's --quirk stamp: CLOCK_MONOTONIC;
// subtract the summary's monotonic_start_ns). A ChunkLog is for measuring the meter: it costs memory, and time only
// between responses.
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

// Err returns the first error of writing. Call it after the run.
func (l *ChunkLog) Err() error { return l.err }

// chunkLines are the lines of one response.
type chunkLines struct {
	log   *ChunkLog // nil: off
	lines []byte
}

// add notes a chunk that came at atNS and was read at readNS; rec counts the chunks before it.
func (c *chunkLines) add(rec *record.Record, atNS, readNS int64, data []byte) {
	if c.log == nil {
		return
	}
	b := strconv.AppendInt(c.lines, rec.Row, 10)
	for _, v := range []int64{rec.Chunks, atNS, readNS} {
		b = strconv.AppendInt(append(b, ','), v, 10)
	}
	c.lines = append(append(append(b, ','), sentIn(data)...), '\n')
}

// sentIn returns the digits of a chunk's "sent_ns".
func sentIn(data []byte) []byte {
	_, after, _ := bytes.Cut(data, []byte(`"sent_ns":`))
	end := 0
	for end < len(after) && after[end] >= '0' && after[end] <= '9' {
		end++
	}
	return after[:end]
}

// flush writes the lines of a response that has ended to the log.
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
