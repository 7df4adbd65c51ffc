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

// TestReadNow: bytes, stamps, what is left, nothing, an end and a closed connection.
func TestReadNow(t *testing.T) {
	must.Do(t, ProbeStamps(Stamps{Receive: true})) // which waits until the kernel stamps
	var near [3]*Socket
	var far [3]net.Conn
	for i := range near {
		near[i], far[i] = connected(t, DialOptions{Epoll: true, Stamps: Stamps{Receive: true}})
	}
	buf := make([]byte, 100)
	for round := range 100 {
		_, err := near[0].ReadNow(buf)
		must.Equal(t, err, error(syscall.EAGAIN), "of a connection without bytes")
		sent := fmt.Sprint("round ", round)
		must.Have(io.WriteString(far[0], sent))(t)
		for unread := int64(0); unread == 0; _, unread = near[0].Received() {
			time.Sleep(10 * time.Microsecond)
		}
		got := must.Have(near[0].ReadNow(buf))(t)
		must.Equal(t, string(buf[:got]), sent, "bytes")
		if wallNS, isNew := near[0].ReadStamp(); !isNew || wallNS == 0 {
			t.Fatalf("stamp %d, new: %t", wallNS, isNew)
		}
	}
	must.Have(far[0].Write(bytes.Repeat([]byte("x"), 150)))(t)
	must.Do(t, far[1].Close())
	near[2].Close()
	time.Sleep(10 * time.Millisecond)
	got, err := near[0].ReadNow(buf)
	if found, left := near[0].Queued(); got != 100 || err != nil || found != 150 || left != 50 {
		t.Errorf("%d bytes, %v, %d found, %d left", got, err, found, left)
	}
	_, err = near[1].ReadNow(buf)
	expect.Equal(t, err, error(io.EOF), "of a connection that has ended")
	_, err = near[2].ReadNow(buf)
	expect.Equal(t, errors.Is(err, net.ErrClosed), true, "a closed connection is not read")
	expect.Equal(t, testing.AllocsPerRun(100, func() { _, _ = near[0].ReadNow(buf) }), 0, "allocations")
}
