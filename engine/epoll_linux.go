package engine

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/sched"
)

// A loop is one thread that reads many plain connections, each as soon as its own epoll instance says that bytes are there,
// into one buffer. Against a goroutine idle in Go's poller for each connection it saves the waking of goroutines and of
// threads for them: it takes about half to two thirds of the CPU time an event (BenchmarkReceive; 1,000 connections, 50,000
// events/s, 2 cores, Linux 6.18).
//
// It never waits for a single connection: one that may need that (it has ended, was cut or is compressed) leaves the loop
// for a goroutine of its own, for good.
type loop struct {
	run   *Run
	epoll int
	bell  int // an eventfd; rung, the loop ends
	buf   []byte
	lags  lags
}

const (
	// mostLoops read what a machine's network brings: one that never sleeps takes 300,000 events/s (BenchmarkLoop).
	mostLoops = 8
	// coresPerLoop leave room for everything else.
	coresPerLoop = 2
	// loopBatch bounds what one epoll_wait(2) returns.
	loopBatch = 128
	// watchedFor are the events of a connection. Edge-triggered: what a loop has read dry costs nothing.
	watchedFor = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	// bellKey is no connection's: their generations count from 1.
	bellKey = 0
)

// loops are those of a run. They start with the first connection.
type loops struct {
	start sync.Once
	err   error
	all   []*loop
	ended sync.WaitGroup
}

// take gives a new connection to a loop. False: it needs a goroutine of its own.
func (ls *loops) take(c *conn) (bool, error) {
	fd, ok := c.sock.EpollFD()
	if !ok {
		return false, nil
	}
	ls.start.Do(func() { ls.err = ls.begin(c.run) })
	if ls.err != nil {
		return false, ls.err
	}
	l := ls.all[int(c.id)%len(ls.all)]
	c.lags = &l.lags
	c.receiver.Store(byLoop)
	return true, l.watch(fd, watchedFor, c.key)
}

func (ls *loops) begin(r *Run) error {
	for range max(1, min(runtime.NumCPU()/coresPerLoop, mostLoops)) {
		l, err := newLoop(r)
		if err != nil {
			return err
		}
		ls.all = append(ls.all, l)
		ls.ended.Go(l.turn)
	}
	return nil
}

// end stops the loops; their connections are closed.
func (ls *loops) end() {
	for _, l := range ls.all {
		_, _ = unix.Write(l.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	ls.ended.Wait()
}

func newLoop(r *Run) (l *loop, err error) {
	l = &loop{run: r, buf: make([]byte, readBuffer)}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if l.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
		err = l.watch(l.bell, unix.EPOLLIN, bellKey)
	}
	if err != nil {
		_ = unix.Close(l.epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return l, nil
}

// watch adds a descriptor; its events bear the key.
func (l *loop) watch(fd int, events uint32, key uint64) error {
	e := unix.EpollEvent{Events: events, Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &e)
}

// turn reads until the bell rings. Its goroutine ends with the thread still locked, so that Go drops the thread.
func (l *loop) turn() {
	sched.PlaceReader(l.run.cfg.Realtime)
	defer l.close()
	events := make([]unix.EpollEvent, loopBatch)
	for {
		for _, e := range events[:l.wait(events)] {
			key := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if key == bellKey {
				return
			}
			// A connection that is over may have events left; its place may be another one's.
			if c := l.run.table[uint32(key)].Load(); c != nil && c.key == key {
				l.ready(c, e.Events)
			}
		}
	}
}

// wait returns the number of events, 0 after a signal.
func (l *loop) wait(events []unix.EpollEvent) int {
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		^uintptr(0), 0, 0)
	switch errno {
	case 0:
		return int(n)
	case unix.EINTR:
		return 0
	}
	panic("BUG: epoll_pwait: " + errno.Error())
}

func (l *loop) close() {
	l.run.lags.take(&l.lags)
	_ = unix.Close(l.epoll)
	_ = unix.Close(l.bell)
}

// ready is told what has happened to a connection.
func (l *loop) ready(c *conn, events uint32) {
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP
	if events&(unix.EPOLLOUT|over) != 0 {
		c.sock.WakeWriter()
	}
	if events&(unix.EPOLLIN|over) == 0 {
		return // stamps of sent data, or room
	}
	if !c.receiver.CompareAndSwap(byLoop, inLoop) {
		c.sock.WakeReader()
		return
	}
	if l.read(c, events&over != 0) {
		c.receiver.Store(byLoop)
	} else {
		c.receiver.Store(byItself)
	}
}

// read takes what has come on c, to the end of the stream if that has come. False: c has left the loop.
func (l *loop) read(c *conn, toEnd bool) (stays bool) {
	for {
		n, err := c.sock.ReadNow(l.buf)
		if err == syscall.EAGAIN {
			return true
		}
		b, at := l.buf[:n], c.noteRead(n)
		if err != nil || !c.awaiting() {
			c.leave(b, at, err)
			return false
		}
		ended, compressed := c.feed(b, at)
		if compressed != nil {
			c.leaveCompressed(compressed)
			return false
		}
		if ended && c.endMayWait() {
			c.readAlone(c.answered)
			return false
		}
		if ended {
			c.answered()
		} else if c.reply.lent && l.run.large.short() {
			c.readAlone(nil) // it may have to wait
			return false
		}
		if n < len(l.buf) && !toEnd { // the kernel has no more, and will say when it has
			return true
		}
	}
}

// leave goes on with what has been read in a goroutine of c's own.
func (c *conn) leave(b []byte, atNS int64, err error) {
	b = bytes.Clone(b)
	c.readAlone(func() bool { return c.step(b, atNS, err) })
}

func (c *conn) leaveCompressed(src *inflateSource) {
	src.body, src.pending = bytes.Clone(src.body), bytes.Clone(src.pending)
	c.readAlone(func() bool { return !c.inflate(src) || c.answered() })
}
