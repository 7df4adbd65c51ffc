package wire

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

func TestEpollWriteEndsWithItsDeadlineAndItsConnection(t *testing.T) {
	near, _ := connected(t, DialOptions{Epoll: true})
	write := func() error {
		_, err := near.tcp.Write(make([]byte, 64<<20))
		return err
	}
	ended := make(chan error)
	for _, c := range []struct {
		end  func()
		want error
	}{
		{near.Interrupt, os.ErrDeadlineExceeded},
		{func() { _ = near.tcp.Close() }, net.ErrClosed},
	} {
		near.Resume()
		go func() { ended <- write() }()
		for !near.tcp.(*epollConn).out.waiting.Load() {
			time.Sleep(time.Millisecond)
		}
		c.end()
		if err := <-ended; !errors.Is(err, c.want) {
			t.Errorf("the write ended with %v, want %v", err, c.want)
		}
	}
	if _, err := near.tcp.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing to a closed connection: %v", err)
	}
}
