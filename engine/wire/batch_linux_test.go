package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestBatchReadsAsEachAlone: bytes, stamps, what is left, nothing, an end and a closed connection, by one call for all
// and by one for each.
func TestBatchReadsAsEachAlone(t *testing.T) {
	must.Do(t, ProbeStamps(Stamps{Receive: true})) // which waits until the kernel stamps
	one := NewBatch()
	if one.uring == nil {
		t.Log("io_uring is not granted here")
	}
	for name, b := range map[string]*Batch{"one call": one, "a call for each": {}} {
		t.Run(name, func(t *testing.T) { batchReads(t, b) })
	}
	one.Close()
}

func batchReads(t *testing.T, b *Batch) {
	const rounds = 200
	var near [MostInBatch]*Socket
	var far [MostInBatch]net.Conn
	var bufs [MostInBatch][]byte
	for i := range near {
		near[i], far[i] = connected(t, DialOptions{Epoll: true, Stamps: Stamps{Receive: true}})
		bufs[i] = make([]byte, 100)
	}
	read := func(n int) {
		for i, s := range near[:n] {
			b.Add(s, bufs[i])
		}
		b.Read()
	}
	for round := range rounds {
		n := 1 + round%MostInBatch
		for i := range n {
			if i%3 != 0 {
				must.Have(io.WriteString(far[i], fmt.Sprintf("%d:%d", round, i)))(t)
			}
		}
		for i := range n {
			for deadline := time.Now().Add(10 * time.Second); i%3 != 0; time.Sleep(10 * time.Microsecond) {
				if _, unread := near[i].Received(); unread > 0 || time.Now().After(deadline) {
					break
				}
			}
		}
		read(n)
		for i, s := range near[:n] {
			got, err := s.Taken()
			if i%3 == 0 {
				must.Equal(t, err, error(syscall.EAGAIN), "of a connection without bytes")
				continue
			}
			must.Do(t, err)
			must.Equal(t, string(bufs[i][:got]), fmt.Sprintf("%d:%d", round, i), "bytes")
			if wallNS, isNew := s.ReadStamp(); !isNew || wallNS == 0 {
				t.Fatalf("stamp %d, new: %t", wallNS, isNew)
			}
		}
	}
	must.Have(far[1].Write(bytes.Repeat([]byte("x"), 150)))(t)
	must.Do(t, far[2].Close())
	near[3].Close()
	time.Sleep(10 * time.Millisecond)
	read(4)
	got, err := near[1].Taken()
	if found, left := near[1].Queued(); got != 100 || err != nil || found != 150 || left != 50 {
		t.Errorf("%d bytes, %v, %d found, %d left", got, err, found, left)
	}
	_, err = near[2].Taken()
	expect.Equal(t, err, error(io.EOF), "of a connection that has ended")
	_, err = near[3].Taken()
	expect.Equal(t, errors.Is(err, syscall.EBADF), true, "a closed connection is not read")
	expect.Equal(t, testing.AllocsPerRun(100, func() { read(2) }), 0, "allocations")
}
