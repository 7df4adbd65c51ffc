package workload

import (
	"errors"
	"fmt"
	"os"

	"github.com/fastreplay/fastreplay/engine/host"
)

// ErrArena means that the memory for the request images could not be had.
var ErrArena = errors.New("no memory for the request images")

// arena holds request images outside the Go heap, so that the collector never scans or counts them.
type arena struct {
	bytes []byte
	file  *os.File // the same memory for another process to map; nil where the system has none such
}

// newArena maps size zeroed bytes; the pages are touched by whoever writes them first.
func newArena(size int64) (*arena, error) {
	if size == 0 {
		return &arena{}, nil
	}
	if f, b, err := host.NewSharedMemory("fastreplay-images", size); err == nil {
		return &arena{bytes: b, file: f}, nil
	}
	b, err := host.MapMemory(size)
	if err != nil {
		return nil, fmt.Errorf("%w: mapping %d bytes: %w", ErrArena, size, err)
	}
	return &arena{bytes: b}, nil
}

// free unmaps the arena. No slice of it may be used afterwards.
func (a *arena) free() error {
	b := a.bytes
	a.bytes = nil
	if a.file != nil {
		_ = a.file.Close()
		a.file = nil
	}
	if len(b) == 0 {
		return nil
	}
	return host.UnmapMemory(b)
}
