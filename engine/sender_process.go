package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

const (
	// assignLead is how long before its instant a request gets its connection. The armer, a goroutine like others, may be late
	// by that much: 40 ms were too few beside a test suite under the race detector on the same 2 cores.
	assignLead = 100 * time.Millisecond
	// assignTick is how often the armer looks.
	assignTick = 4 * time.Millisecond
	// startTimeout bounds how long the lane's process may take to be ready, but for mapping the images, each GB of which
	// takes it some 0.1 s.
	startTimeout = 20 * time.Second
	mapPerByte   = 1 * time.Nanosecond
)

// senderProcess is the lanes in a process of their own, as the replay sees it. There they never meet Go's scheduler, so that a
// deadline waits for no goroutine. The replay arms requests a little ahead: it claims a connection for each and says so on the
// shared board; a lane only waits and writes.
type senderProcess struct {
	run       *Run
	cmd       *exec.Cmd
	link      *net.UnixConn // to the lane: descriptors and what became of them; from it: wake-ups
	memory    []byte
	header    *sharedHeader
	slots     []slot
	ring      *tlsRing // of https requests; nil = there are none
	encrypted []byte   // the armer's: one of them on its way to the stage

	linkMu   sync.Mutex
	messages int64 // messages on the link

	mu       sync.Mutex
	scanned  int64   // shots before this one have been looked at
	retry    []int32 // requests that found no connection yet, or whose connection died before its time
	spare    []int32 // room for the next list of them
	assigned int     // requests before this one have been armed, or are in again
	died     bool
}

// linkMessage tells the lane what happens to a connection: a letter and the connection's key.
type linkMessage [9]byte

const (
	linkOpen  = 'o' // the descriptor comes along
	linkClose = 'c'
)

// startSenderProcess starts the lane's process for r and waits until it is placed.
func startSenderProcess(r *Run, command []string) (*senderProcess, error) {
	l := &senderProcess{run: r}
	if err := l.spawn(command, len(r.table)); err != nil {
		return nil, err
	}
	_ = l.link.SetReadDeadline(time.Now().Add(startTimeout + time.Duration(r.work.Prebuilt.MappedBytes())*mapPerByte))
	_, err := l.link.Read(make([]byte, 1))
	_ = l.link.SetReadDeadline(time.Time{})
	if err != nil {
		l.kill()
		return nil, fmt.Errorf("the sending process does not start: %w", err)
	}
	runtime.AddCleanup(l, func(memory []byte) { _ = host.UnmapMemory(memory) }, l.memory)
	return l, nil
}

// fill lays the plan on the board.
func (l *senderProcess) fill(places int) {
	r := l.run
	b := l.header
	*b = sharedHeader{
		spinNS: int64(r.cfg.Spin), senders: int64(r.senderCount()), slots: int64(len(l.slots)), arenaBytes: r.work.Prebuilt.MappedBytes(), places: int64(places),
	}
	switch r.cfg.Realtime {
	case sched.RealtimeOn:
		b.realtimeOn = 1
	case sched.RealtimeOff:
		b.realtimeOff = 1
	}
	for i := range l.slots {
		s := &l.slots[i]
		s.releaseNS = r.work.Plan.ReleaseNS[i]
		s.offset, s.size = r.work.Prebuilt.Offset(i), r.work.Prebuilt.Size(i)
	}
}

// placement is how the lanes' threads are scheduled, or why it could not be as asked.
func (l *senderProcess) placement() (sched.Placement, error) {
	b := l.header
	text, _, _ := bytes.Cut(b.refused[:], []byte{0})
	refused := string(text)
	if b.ready.Load() == senderRefused {
		return sched.Placement{}, errors.New(refused)
	}
	return sched.Placement{FIFO: b.fifo != 0, ShortSlice: b.short != 0, Refused: refused}, nil
}

// threads are the lanes', once they are placed.
func (l *senderProcess) threads() (ids []int) {
	for i := range l.header.senders {
		ids = append(ids, int(l.header.sender[i].thread))
	}
	return ids
}

// drive keeps requests armed and settles what the lane cannot, until the lane has ended. It has a placed thread: the lane
// can only be as punctual as its requests are armed. Beside six busy programs on 2 cores drift p99 was 19 µs to 190 ms with an
// ordinary goroutine, 27 to 44 µs with this.
func (l *senderProcess) drive() {
	_, _ = sched.PlaceBelow(l.run.cfg.Realtime) // the lane has been granted the same
	l.header.startNS.Store(l.run.clock.MonotonicStartNS())
	listening := make(chan struct{})
	go func() { defer close(listening); l.listen() }()
	defer l.killAfter(l.run.ctx)()
	for tick := sched.NewWaiter(l.run.clock, 0, new(atomic.Bool)); l.look(); {
		tick.Wait(l.run.clock.Now() + int64(assignTick))
	}
	l.kill()
	<-listening
}

// listen settles shots as soon as the lane says that there is something to settle, until it is gone.
func (l *senderProcess) listen() {
	var b [16]byte
	for {
		if _, err := l.link.Read(b[:]); err != nil {
			l.mu.Lock()
			l.died = true
			l.mu.Unlock()
			return
		}
		l.mu.Lock()
		l.settleSlots()
		l.mu.Unlock()
	}
}

// look arms what is due and settles what was missed. It reports whether the lane still runs.
func (l *senderProcess) look() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run.stop.Load() {
		l.header.stop.Store(true)
	}
	ended := l.header.ended.Load() || l.died
	l.settleSlots()
	if ended {
		l.abandonRest()
		return false
	}
	l.assignDue(l.run.clock.Now() + int64(assignLead))
	return true
}

// arm claims connections for the requests released before horizonNS.
func (l *senderProcess) assignDue(horizonNS int64) {
	if l.run.stop.Load() {
		return
	}
	again := l.retry
	l.retry = l.spare[:0]
	for _, i := range again {
		l.assignOne(i)
		l.yieldLock()
	}
	l.spare = again
	for l.assigned < len(l.slots) && l.slots[l.assigned].releaseNS < horizonNS {
		l.assignOne(int32(l.assigned))
		l.assigned++
		l.yieldLock()
	}
}

// yieldLock lets others settle shots between two that are armed: encrypting a long prompt takes milliseconds.
func (l *senderProcess) yieldLock() {
	if l.ring != nil {
		l.mu.Unlock()
		l.mu.Lock()
	}
}

// assignOne claims a connection for request i; without one it is tried again at the next look, until its instant.
func (l *senderProcess) assignOne(i int32) {
	s := &l.slots[i]
	if s.state.Load() != slotEmpty {
		return // missed meanwhile
	}
	if !l.run.work.Prebuilt.Ready(int(i)) || l.ring != nil && !l.ring.fits(wire.EncryptedSize(l.run.work.Prebuilt.Size(int(i))), l.inRing) {
		l.retry = append(l.retry, i)
		return
	}
	p := l.run.poolOf(i)
	for s.state.Load() == slotEmpty {
		c := p.takeIdle()
		if c == nil {
			l.retry = append(l.retry, i)
			return
		}
		if c.linkSeq > l.header.messagesTaken.Load() {
			p.returnIdle(c) // the lane has not got its descriptor yet
			l.retry = append(l.retry, i)
			return
		}
		if c.assign(i, s) {
			return
		}
	}
}

// put encrypts request i for its connection and stages it. False: the connection is of no use any more.
func (l *senderProcess) encrypt(i int32, s *slot, c *conn) bool {
	var err error
	if l.encrypted, err = c.sock.Encrypt(l.encrypted[:0], l.run.bytesOf(i, false)); err != nil {
		return false
	}
	s.offset, s.size = ^l.ring.add(i, l.encrypted), int64(len(l.encrypted))
	return true
}

// inRing tells whether what lies at a place of the stage is still to be written for request i.
func (l *senderProcess) inRing(i int32, place int64) bool {
	s := &l.slots[i]
	switch s.state.Load() {
	case slotAssigned, slotSending, slotPart:
		return s.offset == ^place
	}
	return false
}

// bytesOf is what the lane is given to write for request i.
func (l *senderProcess) bytesOf(i int32) []byte {
	if s := &l.slots[i]; s.offset < 0 {
		return l.ring.bytes[^s.offset:][:s.size]
	}
	return l.run.work.Prebuilt.At(int(i))
}

// rearm is told that the connection claimed for request i died before its instant.
func (l *senderProcess) reassign(i int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.assignOne(i)
}

// scan settles the shots that lanes are done with and that no receiver will settle. A lane may be done with a shot while
// another is still at an earlier one.
func (l *senderProcess) settleSlots() {
	passed := l.header.passed()
	for i := l.scanned; i < min(l.header.claimed.Load(), int64(len(l.slots))); i++ {
		if s := &l.slots[i]; s.state.Load() == slotMissed {
			s.state.Store(slotSettled)
			l.run.send(int32(i), s.releaseNS)
		} else {
			l.settlePartial(int32(i), s)
		}
	}
	l.scanned = passed
}

// settlePartial goes on with a shot of which the kernel did not take all.
func (l *senderProcess) settlePartial(i int32, s *slot) {
	switch s.state.Load() {
	case slotPart:
		s.state.Store(slotSettled)
		l.run.connOf(s).finishWrite(i, s, false)
	case slotFailed:
		s.state.Store(slotSettled)
		c := l.run.connOf(s)
		c.sock.Shutdown() // the reader's side ends too, if it has not
		c.finishWrite(i, s, true)
	}
}

// abandonRest ends the requests that the lane will not send, and gives their connections back.
func (l *senderProcess) abandonRest() {
	why := l.run.notItsTime()
	if !l.header.ended.Load() {
		how := l.exitReason()
		l.header.ended.Store(true)
		if !l.run.stop.Load() && l.header.passed() < int64(len(l.slots)) {
			why, l.run.died = how, how
			l.run.Stop()
			l.run.cfg.OnSenderDeath(how)
		}
	}
	for i := l.header.passed(); i < int64(len(l.slots)); i++ {
		l.abandon(int32(i), why)
	}
}

// exitReason waits for the end of the process, which has closed its link, and says how it ended.
func (l *senderProcess) exitReason() string {
	_ = l.cmd.Process.Kill() // has no effect on one that is ending
	_ = l.cmd.Wait()
	how := l.cmd.ProcessState.String() // "exit status 2", "signal: killed"
	if status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		how += ", which the kernel sends where memory is short: see dmesg"
	}
	return fmt.Sprintf("the sending process (pid %d) died during the run (%s)", l.cmd.Process.Pid, how)
}

func (l *senderProcess) abandon(i int32, why string) {
	s := &l.slots[i]
	switch s.state.Load() {
	case slotPart, slotFailed:
		l.settlePartial(i, s)
	case slotSending: // the lane died over it: whether it was sent, the reply will tell
		s.errno = int32(errSenderGone)
		s.state.Store(slotSettled)
		c := l.run.connOf(s)
		c.finishWrite(i, s, true)
	case slotWhole, slotSettled: // the receiver's
	default:
		if s.state.CompareAndSwap(slotAssigned, slotAbandoned) {
			l.run.connOf(s).takeBack()
		}
		s.state.Store(slotAbandoned)
		l.run.unsent(i, why)
	}
}

// errSenderGone ends the writer's side of a request that the lane died over: the server may have it.
const errSenderGone = syscall.ECONNABORTED

// killGrace is how long a lane may take to end when the run is aborted: one that was stopped or frozen never does.
const killGrace = time.Second

// killAfter kills the lane some time after ctx has ended, unless it has ended by then.
func (l *senderProcess) killAfter(ctx context.Context) (cancel func() bool) {
	return context.AfterFunc(ctx, func() {
		time.AfterFunc(killGrace, func() {
			if !l.header.ended.Load() {
				_ = l.cmd.Process.Kill()
			}
		})
	})
}

// kill ends the process, if it has not ended, and waits for it.
func (l *senderProcess) kill() {
	if l.link != nil {
		_ = l.link.Close() // the lane takes that for an order to end
	}
	if l.cmd != nil {
		if !l.header.ended.Load() {
			_ = l.cmd.Process.Kill()
		}
		_ = l.cmd.Wait()
	}
}

// give hands a connection's descriptor to the lane. It can be armed when the lane has taken as many messages as returned.
func (l *senderProcess) passSocket(key uint64, s *wire.Socket) (seq int64, err error) {
	if failed := s.Control(func(fd uintptr) { seq, err = l.sendMessage(linkOpen, key, syscall.UnixRights(int(fd))) }); failed != nil {
		return 0, failed
	}
	if err != nil && l.header.ended.Load() {
		err = nil // it needs no more connections
	}
	return seq, err
}

// dropSocket tells the lane that a connection is over. A lane that is gone needs no telling.
func (l *senderProcess) dropSocket(key uint64) { _, _ = l.sendMessage(linkClose, key, nil) }

// tell sends a message and returns how many there have been.
func (l *senderProcess) sendMessage(what byte, key uint64, rights []byte) (seq int64, err error) {
	l.linkMu.Lock()
	defer l.linkMu.Unlock()
	m := linkMessage{what}
	binary.LittleEndian.PutUint64(m[1:], key)
	if _, _, err = l.link.WriteMsgUnix(m[:], rights, nil); err == nil {
		l.messages++
	}
	return l.messages, err
}

// CheckSenderProcess says why a plan's requests cannot be sent by a process of its own, in which no responseText comes in; nil if they
// can. leastInFlight and live: responses decide where they go, and what they carry.
func CheckSenderProcess(plan *sched.Plan, leastInFlight, live bool) error {
	switch {
	case !plan.Open():
		return errors.New("a closed loop has no deadlines to keep")
	case plan.Cap > 0:
		return errors.New("what --concurrency holds back is released by responses, which come in here")
	case plan.Turns != nil:
		return errors.New("turns that wait for answers are released by them, which come in here")
	case leastInFlight:
		return errors.New("where a request goes is decided by responses, which come in here")
	case live:
		return errors.New("live history is made of responses, which come in here")
	}
	return nil
}

// whyNoSenderProcess says why a run cannot have a lane in a process of its own.
func whyNoSenderProcess(w *workload.Work, h *history.History) error {
	if err := CheckSenderProcess(&w.Plan, w.Routing.LeastInFlight, h != nil); err != nil {
		return err
	}
	if w.Prebuilt.File() == nil {
		return errors.New("this system has no memory for processes to share")
	}
	return nil
}
