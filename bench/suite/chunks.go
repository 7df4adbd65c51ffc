package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// chunkHead is the head of a log of chunks, fastreplay's and the rivals'.
const chunkHead = "row,chunk,instant_ns,read_ns,sent_ns"

// chunk is a line of the log: instants of the client since the run's start, and the server's as it stamped the chunk,
// CLOCK_MONOTONIC just before the write.
type chunk struct {
	row, number       int64
	instantNS, readNS int64
	sentNS            int64
}

// readChunks reads a log of chunks, in which each row's stand together and in order.
func readChunks(path string) ([]chunk, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseChunks(bufio.NewReaderSize(f, 1<<20), path)
}

func parseChunks(r io.Reader, name string) ([]chunk, error) {
	table := csv.NewReader(r)
	table.ReuseRecord = true
	head, err := table.Read()
	if err != nil || strings.Join(head, ",") != chunkHead {
		return nil, fmt.Errorf("%s begins with %q, %v; want %s", name, head, err, chunkHead)
	}
	var all []chunk
	for {
		cells, err := table.Read()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var c chunk
		for i, to := range []*int64{&c.row, &c.number, &c.instantNS, &c.readNS, &c.sentNS} {
			if *to, err = strconv.ParseInt(cells[i], 10, 64); err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", name, len(all)+2, err)
			}
		}
		if c.number != 0 && (len(all) == 0 || c.row != all[len(all)-1].row || c.number != all[len(all)-1].number+1) {
			return nil, fmt.Errorf("%s, line %d: chunk %d of row %d does not follow the one before it", name, len(all)+2, c.number, c.row)
		}
		all = append(all, c)
	}
}

// chunkErrors are differences between a client's stamps and the server's, ascending, ns.
type chunkErrors struct {
	first []int64 // of the first token's instant
	gaps  []int64 // of each gap between chunks, its sign dropped
}

// errorsOf compares what the client takes for a chunk's instant with the server's stamp; startNS is the run's start by the
// server's clock.
func errorsOf(chunks []chunk, startNS int64, instant func(chunk) int64) chunkErrors {
	var e chunkErrors
	for i, c := range chunks {
		if c.number == 0 {
			e.first = append(e.first, instant(c)+startNS-c.sentNS)
			continue
		}
		off := instant(c) - instant(chunks[i-1]) - (c.sentNS - chunks[i-1].sentNS)
		e.gaps = append(e.gaps, max(off, -off))
	}
	slices.Sort(e.first)
	slices.Sort(e.gaps)
	return e
}
