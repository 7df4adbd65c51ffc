package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine/internal/gather"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// The descriptors that the sender process is started with.
const (
	headerFD = 3
	arenaFD  = 4
	linkFD   = 5
	ringFD   = 6
)

// senderChild is the sender process's own side.
type senderChild struct {
	header *sharedHeader
	slots  []slot
	arena  []byte
	ring   []byte
	table  []socketEntry // connections by place
	clock  *sched.Monotonic
	wake   [1]byte // what wakeReplay sends
}

// ServeSender is the whole sender process. Each sender waits for its requests' instants and writes them on the
// connections that the replay has assigned. The replay starts the process with the descriptors it needs. ServeSender
// returns when all is sent or the run is stopped; if the replay ends before, the process exits.
func ServeSender() error {
	// they are for the replay, which lets requests in flight end first
	signal.Ignore(os.Interrupt, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
	l, err := openSenderChild()
	if err != nil {
		return fmt.Errorf("sender: %w (only fastreplay itself runs this command)", err)
	}
	sched.Alone(int(l.header.senders))
	go l.receiveSockets()
	placed := make(chan threadPlacement)
	var senders sync.WaitGroup
	for i := range l.header.senders {
		senders.Go(func() { l.runSender(&l.header.sender[i], placed) })
	}
	l.publish(collectPlacements(placed, int(l.header.senders))) // if it was refused, the replay ends this process
	senders.Wait()
	l.header.ended.Store(true)
	l.wakeReplay()
	return nil
}

// runSender is one sender, on a thread of its own.
func (l *senderChild) runSender(s *senderState, placed chan<- threadPlacement) {
	p, err := sched.Place(realtimeModes()[l.header.realtime])
	s.thread = int64(sched.ThreadID())
	placed <- threadPlacement{p, err}
	if err != nil {
		return
	}
	for l.header.startNS.Load() == 0 {
		if l.header.stop.Load() {
			return
		}
		time.Sleep(startLead / 5) // a run may wait long for its start
	}
	l.clock.StartAt(l.header.startNS.Load())
	w := sched.NewLoneWaiter(l.clock, time.Duration(l.header.spinNS), &l.header.stop)
	l.sendAll(s, w, new(wire.Gatherer))
	s.spinNS.Store(int64(w.Spin()))
}

func openSenderChild() (*senderChild, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(headerFD, &stat); err != nil {
		return nil, err
	}
	if stat.Size < int64(headerBytes) {
		return nil, errors.New("no shared header")
	}
	memory, err := unix.Mmap(headerFD, 0, int(stat.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	l := &senderChild{header: headerOf(memory), clock: sched.NewMonotonic()}
	if sharedSize(int(l.header.slots)) > stat.Size {
		return nil, errors.New("the shared memory is too small")
	}
	l.slots = slotsOf(memory, int(l.header.slots))
	l.table = make([]socketEntry, l.header.places)
	if l.arena, err = unix.Mmap(arenaFD, 0, int(l.header.arenaBytes), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	if n := l.header.ringBytes; n > 0 {
		if l.ring, err = unix.Mmap(ringFD, 0, int(n), unix.PROT_READ, unix.MAP_SHARED); err != nil {
			return nil, err
		}
		touch(l.ring)
	}
	touch(l.arena)
	return l, nil
}

// touch maps every page of memory, so that no write waits for that.
func touch(memory []byte) {
	if unix.Madvise(memory, unix.MADV_POPULATE_READ) == nil {
		return
	}
	sum := byte(0) // kernels before 5.14
	for i := 0; i < len(memory); i += os.Getpagesize() {
		sum += memory[i]
	}
	runtime.KeepAlive(sum)
}

// publish writes the placement of the senders' threads into the header.
func (l *senderChild) publish(p threadPlacement) {
	h := l.header
	text := p.Refused
	ready := senderPlaced
	if p.err != nil {
		text, ready = p.err.Error(), senderRefused
	}
	copy(h.refused[:len(h.refused)-1], text)
	h.fifo = p.FIFO
	h.short = p.ShortSlice
	h.ready.Store(ready)
	l.wakeReplay()
}

// socketEntry is a connection of the replay: its generation and this process's descriptor of it. A sender reads it as
// one word.
type socketEntry struct{ word atomic.Uint64 } // generation<<32 | descriptor; 0 = none

// receiveSockets keeps the table up to date, and exits the process when the replay has ended. It allocates nothing:
// the collector is off.
func (l *senderChild) receiveSockets() {
	var in linkReader
	for in.next() {
		key := binary.LittleEndian.Uint64(in.message[1:])
		c := &l.table[uint32(key)]
		if old := c.word.Swap(0); old != 0 {
			_ = unix.Close(int(uint32(old)))
		}
		if fd, ok := in.right(); ok && in.message[0] == linkOpen {
			c.word.Store(key>>32<<32 | uint64(fd))
		}
		l.header.messagesTaken.Add(1)
	}
	os.Exit(0)
}

// linkReader reads messages and the descriptors that come with them.
type linkReader struct {
	message linkMessage
	rights  struct { // room for one
		head unix.Cmsghdr
		fd   int32
		_    int32
	}
	head unix.Msghdr
	iov  unix.Iovec
}

// next waits for a message; false: the other side has closed the link. It keeps its P: else Go's monitor would take it
// back for each message. For a millisecond after that, it would look every 20 µs for others to take.
func (r *linkReader) next() bool {
	r.iov.Base = &r.message[0]
	r.iov.SetLen(len(r.message))
	for {
		r.rights.head = unix.Cmsghdr{}
		r.head = unix.Msghdr{
			Iov:     &r.iov,
			Iovlen:  1,
			Control: (*byte)(unsafe.Pointer(&r.rights)),
		}
		r.head.SetControllen(int(unsafe.Sizeof(r.rights)))
		n, _, errno := syscall.RawSyscall(
			unix.SYS_RECVMSG,
			linkFD,
			uintptr(unsafe.Pointer(&r.head)),
			unix.MSG_CMSG_CLOEXEC,
		)
		if errno != unix.EINTR {
			return errno == 0 && int(n) == len(r.message)
		}
	}
}

// right returns the descriptor that came with the message.
func (r *linkReader) right() (fd int32, ok bool) {
	h := &r.rights.head
	return r.rights.fd, h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_RIGHTS && int(h.Len) == unix.CmsgLen(4)
}

// What follows is the hot path of a sender in a process of its own. None of it checks the stack: see
// sched.NewLoneWaiter.

// sendAll sends each slot that no other sender has claimed.
//
//go:nosplit
func (l *senderChild) sendAll(s *senderState, w *sched.Waiter, g *wire.Gatherer) {
	for i := l.claim(s); i < int64(len(l.slots)); i = l.claim(s) {
		if !w.Wait(l.slots[i].releaseNS) {
			return
		}
		wake := l.sendSlot(&l.slots[i], g)
		s.at.Store(i + 1)
		if wake {
			l.wakeReplay()
		}
	}
}

// claim takes the next slot for the sender s.
//
//go:nosplit
func (l *senderChild) claim(s *senderState) int64 {
	i := l.header.claimed.Add(1) - 1
	s.at.Store(i)
	return i
}

// sendSlot writes one slot, and reports whether the replay must be woken to settle it.
//
//go:nosplit
func (l *senderChild) sendSlot(s *slot, g *wire.Gatherer) (wake bool) {
	for !s.state.CompareAndSwap(slotAssigned, slotSending) {
		if s.state.CompareAndSwap(slotEmpty, slotMissed) {
			return true
		}
	}
	key := s.conn.Load()
	word := l.table[uint32(key)].word.Load()
	s.sentNS = l.clock.Now()
	if word>>32 != key>>32 {
		return s.fail(syscall.ENOTCONN)
	}
	b := l.bytes(s)
	n, errno := g.WriteNow(uintptr(uint32(word)), &b)
	s.writtenNS = l.clock.Now()
	s.wrote = int64(n)
	l.header.written.Add(1)
	switch {
	case errno == syscall.EAGAIN || errno == 0 && s.wrote < s.size:
		s.state.Store(slotPart)
		return true
	case errno != 0:
		return s.fail(errno)
	}
	s.state.Store(slotWhole)
	return false
}

// bytes returns what is written for a slot.
//
//go:nosplit
func (l *senderChild) bytes(s *slot) gather.List {
	switch {
	case s.offset < 0:
		return gather.List{Memory: l.ring[^s.offset:][:s.size]}
	case s.segments > 0:
		first := (*gather.Segment)(unsafe.Pointer(&l.arena[s.offset]))
		return gather.List{Memory: l.arena, Segments: unsafe.Slice(first, s.segments)}
	}
	return gather.List{Memory: l.arena[s.offset:][:s.size]}
}

// fail makes errno the result of a slot, and returns true.
//
//go:nosplit
func (s *slot) fail(errno syscall.Errno) (wake bool) {
	s.wrote = -int64(errno)
	s.state.Store(slotFailed)
	return true
}

// wakeReplay sends a wake-up. If there is no room for it, earlier ones are unread, and serve as well.
//
//go:nosplit
func (l *senderChild) wakeReplay() { _, _ = wire.WriteNow(linkFD, l.wake[:]) }
