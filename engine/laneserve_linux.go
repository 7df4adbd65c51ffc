package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/sched"
)

// The descriptors that a lane's process is started with.
const (
	laneBoardFD = 3
	laneArenaFD = 4
	laneLinkFD  = 5
	laneStageFD = 6
)

// descriptorPatience is how long the lane spins for a connection's descriptor, ns. Connections are dialled and armed a tenth of
// a second ahead, so that it hardly ever does.
const descriptorPatience = 1_000_000

// laneHeap bounds the heap, whose collector is off until then.
const laneHeap = 256 << 20

// laneServer is the lane in its own process.
type laneServer struct {
	board *laneBoard
	shots []shot
	arena []byte
	stage []byte
	table []laneConn // connections by place
	link  *net.UnixConn
	wake  uintptr // the link's descriptor
	clock *sched.Monotonic
}

// laneConn is a connection of the replay: its generation and this process's descriptor of it. The lane reads it as one word.
type laneConn struct{ word atomic.Uint64 } // generation<<32 | descriptor; 0 = none

// ServeLane is the whole of a lane's process: it waits for each request's instant and writes it on the connection that
// the replay has armed. The command line hands it the descriptors; it ends when the replay does.
func ServeLane() error {
	debug.SetGCPercent(-1) // connections that come and go are all that it allocates
	debug.SetMemoryLimit(laneHeap)
	l, err := openLane()
	if err != nil {
		return fmt.Errorf("lane: %w (this command is for fastreplay itself)", err)
	}
	go l.takeConnections()
	placed, err := sched.Place(l.mode())
	l.publish(placed, err) // refused, the replay ends us
	for l.board.startNS.Load() == 0 {
		if l.board.stop.Load() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	l.clock.StartAt(l.board.startNS.Load())
	l.fireAll()
	l.board.ended.Store(true)
	l.wakeReplay()
	return nil
}

func openLane() (*laneServer, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(laneBoardFD, &stat); err != nil {
		return nil, err
	}
	if stat.Size < int64(boardBytes) {
		return nil, errors.New("no board")
	}
	memory, err := unix.Mmap(laneBoardFD, 0, int(stat.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	l := &laneServer{board: boardOf(memory), clock: sched.NewMonotonic(), wake: laneLinkFD}
	if boardSize(int(l.board.shots)) > stat.Size {
		return nil, errors.New("the board is too small")
	}
	l.shots = shotsOf(memory, int(l.board.shots))
	l.table = make([]laneConn, l.board.places)
	if l.arena, err = unix.Mmap(laneArenaFD, 0, int(l.board.arenaBytes), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	if n := l.board.stageBytes; n > 0 {
		if l.stage, err = unix.Mmap(laneStageFD, 0, int(n), unix.PROT_READ, unix.MAP_SHARED); err != nil {
			return nil, err
		}
		touch(l.stage)
	}
	touch(l.arena)
	link, err := net.FileConn(os.NewFile(laneLinkFD, "replay"))
	if err != nil {
		return nil, err
	}
	var ok bool
	if l.link, ok = link.(*net.UnixConn); !ok {
		return nil, errors.New("no link")
	}
	raw, err := l.link.SyscallConn()
	if err != nil {
		return nil, err
	}
	return l, raw.Control(func(fd uintptr) { l.wake = fd })
}

// touch maps every page of memory, so that no write meets its first touch.
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

func (l *laneServer) mode() sched.Realtime {
	switch {
	case l.board.realtimeOn != 0:
		return sched.RealtimeOn
	case l.board.realtimeOff != 0:
		return sched.RealtimeOff
	}
	return sched.RealtimeAuto
}

func (l *laneServer) publish(p sched.Placement, err error) {
	b := l.board
	text := p.Refused
	if err != nil {
		text = err.Error()
	}
	copy(b.refused[:len(b.refused)-1], text)
	if p.FIFO {
		b.fifo = 1
	}
	if p.ShortSlice {
		b.short = 1
	}
	ready := lanePlaced
	if err != nil {
		ready = laneRefused
	}
	b.ready.Store(ready)
	l.wakeReplay()
}

// fireAll is the lane.
func (l *laneServer) fireAll() {
	w := sched.NewWaiter(l.clock, time.Duration(l.board.spinNS), &l.board.stop)
	for i := range l.shots {
		s := &l.shots[i]
		if !w.Wait(s.releaseNS) {
			return
		}
		told := l.fire(s)
		l.board.next.Store(int64(i) + 1)
		if told {
			l.wakeReplay()
		}
	}
}

// fire writes one shot, and reports whether the replay must be told of the result at once: the hot path.
func (l *laneServer) fire(s *shot) (tell bool) {
	for !s.state.CompareAndSwap(shotArmed, shotFiring) {
		if s.state.CompareAndSwap(shotEmpty, shotMissed) {
			return true
		}
	}
	key := s.conn.Load()
	word := l.table[uint32(key)].word.Load()
	for began := l.clock.Now(); word>>32 != key>>32 && l.clock.Now()-began < descriptorPatience; { // it is still on the way
		word = l.table[uint32(key)].word.Load()
	}
	s.sentNS = l.clock.Now()
	if word>>32 != key>>32 {
		return l.fail(s, syscall.ENOTCONN)
	}
	n, err := writeNow(uintptr(uint32(word)), l.bytes(s))
	s.writtenNS = l.clock.Now()
	s.wrote = int64(n)
	l.board.fired.Add(1)
	switch {
	case err == syscall.EAGAIN || err == nil && s.wrote < s.size:
		s.state.Store(shotPart)
		return true
	case err != nil:
		return l.fail(s, err.(syscall.Errno))
	}
	s.state.Store(shotWhole)
	return false
}

// bytes is what a shot writes.
func (l *laneServer) bytes(s *shot) []byte {
	if s.offset < 0 {
		return l.stage[^s.offset:][:s.size]
	}
	return l.arena[s.offset:][:s.size]
}

func (l *laneServer) fail(s *shot, errno syscall.Errno) bool {
	s.errno = int32(errno)
	s.state.Store(shotFailed)
	return true
}

// wakeReplay sends an empty wake-up. One that does not fit is not missed: others wait to be read.
func (l *laneServer) wakeReplay() { _, _ = writeNow(l.wake, []byte{0}) }

// takeConnections keeps the table, and ends the process when the replay is gone.
func (l *laneServer) takeConnections() {
	var m linkMessage
	rights := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := l.link.ReadMsgUnix(m[:], rights)
		if err != nil || n != len(m) {
			os.Exit(0)
		}
		key := binary.LittleEndian.Uint64(m[1:])
		c := &l.table[uint32(key)]
		if old := c.word.Swap(0); old != 0 {
			_ = unix.Close(int(uint32(old)))
		}
		if fd, ok := oneRight(rights[:oobn]); ok && m[0] == linkOpen {
			c.word.Store(key>>32<<32 | uint64(fd))
		}
		l.board.taken.Add(1)
	}
}

func oneRight(oob []byte) (fd int, ok bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return 0, false
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, false
	}
	return fds[0], true
}
