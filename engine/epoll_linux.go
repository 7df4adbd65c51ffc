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
type epollReader struct {
	run   *Run
	epoll int
	wake  int // an eventfd; rung, the loop ends
	buf   []byte
	lags  lags
}

const (
	// maxEpollReaders read what a machine's network brings: one that never sleeps takes 300,000 events/s (BenchmarkEpollReader).
	maxEpollReaders = 8
	// coresPerEpollReader leave room for everything else.
	coresPerEpollReader = 2
	// epollBatch bounds what one epoll_wait(2) returns.
	epollBatch = 128
	// watchedFor are the events of a connection. Edge-triggered: what a loop has read dry costs nothing.
	watchedFor = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	// wakeKey is no connection's: their generations count from 1.
	wakeKey = 0
)

// loops are those of a run. They start with the first connection.
type epollReaders struct {
	start sync.Once
	err   error
	all   []*epollReader
	ended sync.WaitGroup
}

// take gives a new connection to a loop. False: it needs a goroutine of its own.
func (ls *epollReaders) add(c *conn) (bool, error) {
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
	c.receiver.Store(byEpoll)
	return true, l.watch(fd, watchedFor, c.key)
}

func (ls *epollReaders) begin(r *Run) error {
	for range max(1, min(runtime.NumCPU()/coresPerEpollReader, maxEpollReaders)) {
		l, err := newEpollReader(r)
		if err != nil {
			return err
		}
		ls.all = append(ls.all, l)
		ls.ended.Go(l.readUntilWoken)
	}
	return nil
}

// end stops the loops; their connections are closed.
func (ls *epollReaders) end() {
	for _, l := range ls.all {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	ls.ended.Wait()
}

func newEpollReader(r *Run) (l *epollReader, err error) {
	l = &epollReader{run: r, buf: make([]byte, readBuffer)}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
		err = l.watch(l.wake, unix.EPOLLIN, wakeKey)
	}
	if err != nil {
		_ = unix.Close(l.epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return l, nil
}

// watch adds a descriptor; its events bear the key.
func (l *epollReader) watch(fd int, events uint32, key uint64) error {
	e := unix.EpollEvent{Events: events, Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &e)
}

// turn reads until the bell rings. Its goroutine ends with the thread still locked, so that Go drops the thread.
func (l *epollReader) readUntilWoken() {
	sched.PlaceReader(l.run.cfg.Realtime)
	defer l.close()
	events := make([]unix.EpollEvent, epollBatch)
	for {
		for _, e := range events[:l.wait(events)] {
			key := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if key == wakeKey {
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
func (l *epollReader) wait(events []unix.EpollEvent) int {
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

func (l *epollReader) close() {
	l.run.lags.take(&l.lags)
	_ = unix.Close(l.epoll)
	_ = unix.Close(l.wake)
}

// ready is told what has happened to a connection.
func (l *epollReader) ready(c *conn, events uint32) {
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP
	if events&(unix.EPOLLOUT|over) != 0 {
		c.sock.WakeWriter()
	}
	if events&(unix.EPOLLIN|over) == 0 {
		return // stamps of sent data, or room
	}
	if !c.receiver.CompareAndSwap(byEpoll, inEpoll) {
		c.sock.WakeReader()
		return
	}
	if l.read(c, events&over != 0) {
		c.receiver.Store(byEpoll)
	} else {
		c.receiver.Store(byGoroutine)
	}
}

// read takes what has come on c, to the end of the stream if that has come. False: c has left the loop.
func (l *epollReader) read(c *conn, toEnd bool) (stays bool) {
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
			c.readInGoroutine(c.answered)
			return false
		}
		if ended {
			c.answered()
		} else if c.response.lent && l.run.large.short() {
			c.readInGoroutine(nil) // it may have to wait
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
	c.readInGoroutine(func() bool { return c.step(b, atNS, err) })
}

func (c *conn) leaveCompressed(src *inflateSource) {
	src.body, src.pending = bytes.Clone(src.body), bytes.Clone(src.pending)
	c.readInGoroutine(func() bool { return !c.inflate(src) || c.answered() })
}
