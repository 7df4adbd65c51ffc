package engine

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/sched"
)

// The descriptors that the lanes' process is started with.
const (
	laneBoardFD = 3
	laneArenaFD = 4
	laneLinkFD  = 5
	laneStageFD = 6
)

// laneServer is the lanes in their own process.
type laneServer struct {
	board *laneBoard
	shots []shot
	arena []byte
	stage []byte
	table []laneConn // connections by place
	clock *sched.Monotonic
	wake  [1]byte // what wakeReplay sends
}

// ServeLane is the whole of the lanes' process: each waits for its requests' instants and writes them on the connections
// that the replay has armed. The command line hands it the descriptors; it ends when the replay does.
func ServeLane() error {
	signal.Ignore(os.Interrupt, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE) // they are for the replay, which drains first
	l, err := openLane()
	if err != nil {
		return fmt.Errorf("lane: %w (this command is for fastreplay itself)", err)
	}
	sched.Alone(int(l.board.lanes))
	go l.takeConnections()
	placed := make(chan lanePlacing)
	var lanes sync.WaitGroup
	for i := range l.board.lanes {
		lanes.Go(func() { l.lane(&l.board.lane[i], placed) })
	}
	l.publish(gatherPlacings(placed, int(l.board.lanes))) // refused, the replay ends us
	lanes.Wait()
	l.board.ended.Store(true)
	l.wakeReplay()
	return nil
}

// lane is one lane, on a thread of its own.
func (l *laneServer) lane(s *laneState, placed chan<- lanePlacing) {
	p, err := sched.Place(l.mode())
	s.thread = int64(threadID())
	placed <- lanePlacing{p, err}
	if err != nil {
		return
	}
	for l.board.startNS.Load() == 0 {
		if l.board.stop.Load() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	l.clock.StartAt(l.board.startNS.Load())
	w := sched.NewLoneWaiter(l.clock, time.Duration(l.board.spinNS), &l.board.stop)
	l.fireAll(s, w)
	s.spinNS.Store(int64(w.Spin()))
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
	l := &laneServer{board: boardOf(memory), clock: sched.NewMonotonic()}
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
	return l, nil
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

func (l *laneServer) publish(p lanePlacing) {
	b := l.board
	text := p.Refused
	if p.err != nil {
		text = p.err.Error()
	}
	copy(b.refused[:len(b.refused)-1], text)
	if p.FIFO {
		b.fifo = 1
	}
	if p.ShortSlice {
		b.short = 1
	}
	ready := lanePlaced
	if p.err != nil {
		ready = laneRefused
	}
	b.ready.Store(ready)
	l.wakeReplay()
}
