package engine

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/sched"
)

// epollReader is a thread that reads many plain connections into a few buffers, each as soon as its epoll instance
// reports bytes. A goroutine for each connection, in Go's poller, has to be woken for each event, and perhaps a
// thread for it. The epoll reader takes about half to two thirds of the CPU time an event (1,000 connections,
// 50,000 events/s, a read for each, 2 cores, Linux 6.18).
//
// It never waits for a single connection. If a connection has ended, was cancelled or is compressed, reading it may
// wait: it gets a goroutine of its own, for good. So does one that has more after mostReads: others wait for it.
type epollReader struct {
	run     *Run
	epoll   int
	wake    int       // an eventfd; when it is written, a pause ends, and the reader if all connections are closed
	due     []dueRead // at most mostDue
	readLag readLag
	pause   pause
	trial   trial
}

// trial is a connection whose next bytes are left unread for one long pause, see nagle.
type trial struct {
	key   uint64
	left  bool  // there are some, …
	endNS int64 // … until then
}

// dueRead is a connection that has bytes, where they are read to, and what the read returned.
type dueRead struct {
	conn  *conn
	toEnd bool // up to the end of the stream
	buf   []byte
	n     int
	err   error
}

const (
	// maxEpollReaders are enough for a machine's network: one that never sleeps takes 300,000 events/s
	// (a read for each; 2 cores, Linux 6.18).
	maxEpollReaders = 8
	// coresPerEpollReader leaves cores for everything else.
	coresPerEpollReader = 2
	// mostDue bounds how many connections are read, by one look at the clocks, before what came is looked at: 0.1 ms.
	mostDue = 16
	// epollBatch bounds what one epoll_wait(2) returns.
	epollBatch = 1024
	// mostReads bounds the reads of a connection in a row: 1 MB, some milliseconds. A server can send faster than that.
	mostReads = 64
	// watchedFor are the events of a connection. They are edge-triggered: a connection without new bytes costs nothing.
	watchedFor = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	// wakeKey is no connection's key: their generations count from 1.
	wakeKey = 0
)

// epollReaders are those of a run. They start with the first connection.
type epollReaders struct {
	start sync.Once
	err   error
	all   []*epollReader
	over  atomic.Bool // all connections are closed
	ended sync.WaitGroup
}

// add gives a new connection to an epoll reader; false if it needs a goroutine of its own.
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
	c.readLag = &l.readLag
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

// end stops the readers, after all connections are closed.
func (ls *epollReaders) end() {
	ls.over.Store(true)
	ls.hurry()
	ls.ended.Wait()
}

// hurry ends the pauses of readers.
func (ls *epollReaders) hurry() {
	for _, l := range ls.all {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func newEpollReader(r *Run) (l *epollReader, err error) {
	due := make([]dueRead, mostDue)
	for i := range due {
		due[i].buf = make([]byte, readBuffer)
	}
	l = &epollReader{run: r, due: due[:0]}
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

// watch adds a descriptor, whose events have the key.
func (l *epollReader) watch(fd int, events uint32, key uint64) error {
	e := unix.EpollEvent{
		Events: events,
		Fd:     int32(uint32(key)),
		Pad:    int32(uint32(key >> 32)),
	}
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &e)
}

// readUntilWoken reads until all connections are closed and wake is written. Its goroutine ends with the thread still
// locked, so that Go drops the thread.
func (l *epollReader) readUntilWoken() {
	sched.PlaceReader(l.run.cfg.Realtime)
	defer l.close()
	events := make([]unix.EpollEvent, epollBatch)
	woken := make([]byte, 8)
	for {
		l.readLag.paused = l.pause.take(l.run, l.wake)
		n := l.wait(events)
		l.pause.begin(l.run.clock.Now(), n == len(events))
		if n < len(events) && !l.trial.left {
			l.readLag.settle()
		}
		for _, e := range events[:n] {
			key := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if key == wakeKey {
				if l.run.epollReaders.over.Load() {
					return
				}
				_, _ = unix.Read(l.wake, woken)
				continue
			}
			l.happened(key, e.Events)
		}
		if ended := l.trial; ended.left && l.pause.batchNS >= ended.endNS {
			l.trial = trial{}
			l.happened(ended.key, unix.EPOLLIN)
		}
		l.readDue()
	}
}

// happened takes the events of a key. A connection that is over may have some left, and another connection may have its
// place.
func (l *epollReader) happened(key uint64, events uint32) {
	if c := l.run.table[uint32(key)].Load(); c != nil && c.key == key {
		l.ready(c, events)
	}
}

// tryPause leaves the next bytes of a connection unread, if it is to be tried.
func (l *epollReader) tryPause(c *conn) {
	if l.readLag.paused && !l.trial.left && c.pool.nagle.try(&c.small, l.pause.batchNS) {
		l.trial = trial{key: c.key}
	}
}

// wait returns the number of events, 0 after a signal or at the end of a trial.
func (l *epollReader) wait(events []unix.EpollEvent) int {
	limit := ^uintptr(0)
	if l.trial.left {
		limit = uintptr(max(1, (l.trial.endNS-l.run.clock.Now())/1e6)) // ms
	}
	n, _, errno := syscall.Syscall6(
		unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), limit, 0, 0,
	)
	switch errno {
	case 0:
		return int(n)
	case unix.EINTR:
		return 0
	}
	panic("BUG: epoll_pwait: " + errno.Error())
}

func (l *epollReader) close() {
	l.run.readLag.take(&l.readLag)
	_ = unix.Close(l.epoll)
	_ = unix.Close(l.wake)
}

// ready takes the events of a connection. readDue reads it, at the latest.
func (l *epollReader) ready(c *conn, events uint32) {
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP
	if events&(unix.EPOLLOUT|over) != 0 {
		c.sock.WakeWriter()
	}
	if events&(unix.EPOLLIN|over) == 0 {
		return // stamps of sent data, or room in the send buffer
	}
	if c.key == l.trial.key && events&over == 0 {
		if !l.trial.left {
			l.trial.left = true
			l.trial.endNS = l.pause.batchNS + int64(longestPause)
		}
		return
	}
	if !c.receiver.CompareAndSwap(byEpoll, inEpoll) {
		c.sock.WakeReader()
		return
	}
	place := len(l.due)
	l.due = l.due[:place+1]
	l.due[place].conn = c
	l.due[place].toEnd = events&over != 0
	if len(l.due) == cap(l.due) {
		l.readDue()
	}
}

// readDue reads the connections that have bytes, all at once, and then looks at what came.
func (l *epollReader) readDue() {
	l.readLag.takenNS = l.run.clock.Now()
	for k := range l.due {
		d := &l.due[k]
		d.n, d.err = d.conn.sock.ReadNow(d.buf)
	}
	l.readLag.note(l.run)
	for _, d := range l.due {
		if l.read(d) {
			d.conn.receiver.Store(byEpoll)
		} else {
			d.conn.receiver.Store(byGoroutine)
		}
	}
	l.due = l.due[:0]
}

// readMore reads what else a connection has.
func (l *epollReader) readMore(d dueRead) (n int, err error) {
	n, err = d.conn.sock.ReadNow(d.buf)
	l.readLag.note(l.run)
	return n, err
}

// read looks at what was read of a connection, and reads what else has arrived. It returns false if the connection has
// a goroutine of its own now.
func (l *epollReader) read(d dueRead) (stays bool) {
	c, reads := d.conn, 0
	for n, err := d.n, d.err; ; n, err = l.readMore(d) {
		if err == syscall.EAGAIN {
			return true
		}
		b, at := d.buf[:n], c.noteRead(n)
		if err != nil || !c.awaiting() {
			kept := bytes.Clone(b) // not b: the closure would make it a heap variable of each read
			c.readInGoroutine(func() bool { return c.step(kept, at, err) })
			return false
		}
		l.pause.note(n, len(c.parts), !c.pool.nagle.absent())
		ended, compressed := c.feed(b, at)
		if compressed != nil {
			compressed.body, compressed.pending = bytes.Clone(compressed.body), bytes.Clone(compressed.pending)
			c.readInGoroutine(func() bool { return !c.inflate(compressed) || c.answered() })
			return false
		}
		// it may wait for the sender process: to send it a message, or for a write
		if ended && (!c.staysOpen() || c.beingWritten()) {
			c.readInGoroutine(c.answered)
			return false
		}
		if ended {
			c.answered()
		} else if c.response.loans.lent && l.run.large.short() {
			c.readInGoroutine(nil) // it may have to wait for memory
			return false
		}
		if n < len(d.buf) && !d.toEnd { // the kernel has no more, and sends an event when it has
			l.tryPause(c)
			return true
		}
		if reads++; reads == mostReads {
			c.readInGoroutine(nil) // others wait
			return false
		}
	}
}
