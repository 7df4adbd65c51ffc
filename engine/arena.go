package engine

import (
	"errors"
	"fmt"
)

// ErrArena means that the memory for the request images could not be had.
var ErrArena = errors.New("no memory for the request images")

// arena holds request images outside the Go heap, so that the collector never scans or counts them.
type arena struct{ bytes []byte }

// newArena maps size zeroed bytes; the pages are touched by whoever writes them first.
func newArena(size int64) (*arena, error) {
	if size == 0 {
		return &arena{}, nil
	}
	b, err := mapMemory(size)
	if err != nil {
		return nil, fmt.Errorf("%w: mapping %d bytes: %w", ErrArena, size, err)
	}
	return &arena{bytes: b}, nil
}

// free unmaps the arena. No slice of it may be used afterwards.
func (a *arena) free() error {
	b := a.bytes
	a.bytes = nil
	if len(b) == 0 {
		return nil
	}
	return unmapMemory(b)
}
