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
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

const (
	// assignLead is how long before its instant a request gets its connection. The goroutine that assigns may be late
	// by that much. 40 ms were too few beside a test suite under the race detector on the same 2 cores.
	assignLead = 100 * time.Millisecond
	// assignTick is how often requests are assigned.
	assignTick = 10 * time.Millisecond
	// startTimeout bounds how long the sender process may take to be ready, and mapPerByte its time to map the
	// requests: about 0.1 s a GB.
	startTimeout = 20 * time.Second
	mapPerByte   = 1 * time.Nanosecond
)

// senderProcess is the replay's side of the senders in a process of their own. Go's scheduler never runs between a
// deadline and its write there, so a deadline waits for no goroutine. The replay assigns requests a little ahead: it
// claims a connection for each and notes it in the request's slot. A sender only waits and writes.
type senderProcess struct {
	run       *Run
	cmd       *exec.Cmd
	link      *net.UnixConn // to the process: descriptors of connections, and which are closed; from it: wake-ups
	memory    []byte
	header    *sharedHeader
	slots     []slot
	ring      *tlsRing // of https requests; nil = there are none
	encrypted []byte   // of the goroutine that assigns: one request on its way to the ring

	linkMu   sync.Mutex
	messages int64 // messages on the link

	mu       sync.Mutex
	scanned  int64   // slots before this one have been settled, or will be by a receiver
	retry    []int32 // requests that found no connection yet, or whose connection died before its time
	spare    []int32 // room for the next list of them
	assigned int     // requests before this one have been assigned, or are in retry
	died     bool
}

// linkMessage opens or closes a connection for the sender process: a letter and the connection's key.
type linkMessage [9]byte

const (
	linkOpen  = 'o' // the descriptor comes along
	linkClose = 'c'
)

// startSenderProcess starts the sender process for r and waits until its threads are placed.
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

// fill writes the plan into the header and the slots.
func (l *senderProcess) fill(places int) {
	r := l.run
	*l.header = sharedHeader{
		realtime:   int64(max(0, slices.Index(realtimeModes(), r.cfg.Realtime))),
		spinNS:     int64(r.cfg.Spin),
		senders:    int64(r.senderCount()),
		slots:      int64(len(l.slots)),
		arenaBytes: r.work.Prebuilt.MappedBytes(),
		places:     int64(places),
	}
	for i := range l.slots {
		s := &l.slots[i]
		s.releaseNS = r.work.Plan.ReleaseNS[i]
		offset, segments := r.work.Prebuilt.Offset(i)
		s.offset = offset
		s.segments = int32(segments)
		s.size = r.work.Prebuilt.Size(i)
	}
}

// placement returns how the senders' threads are scheduled, or why they cannot be scheduled as requested.
func (l *senderProcess) placement() (sched.Placement, error) {
	h := l.header
	refused, _, _ := bytes.Cut(h.refused[:], []byte{0})
	if h.ready.Load() == senderRefused {
		return sched.Placement{}, errors.New(string(refused))
	}
	return sched.Placement{
		FIFO:       h.fifo,
		ShortSlice: h.short,
		Refused:    string(refused),
	}, nil
}

// threads returns the ids of the senders' threads, once they are placed.
func (l *senderProcess) threads() (ids []int) {
	for i := range l.header.senders {
		ids = append(ids, int(l.header.sender[i].thread))
	}
	return ids
}

// drive assigns requests and settles the slots that need the replay, until the senders have ended. It has a placed
// thread: a sender can only be punctual if its request is assigned. Beside six busy programs on 2 cores drift p99 was
// 19 µs to 190 ms with an ordinary goroutine, 27 to 44 µs with this.
func (l *senderProcess) drive() {
	_, _ = sched.PlaceBelow(l.run.cfg.Realtime) // the senders have been granted the same
	l.header.startNS.Store(l.run.clock.MonotonicStartNS())
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		l.listen()
	}()
	defer l.killAfter(l.run.ctx)()
	for tick := sched.NewWaiter(l.run.clock, 0, new(atomic.Bool)); l.look(); {
		tick.Wait(l.run.clock.Now() + int64(assignTick))
	}
	l.kill()
	<-listening
}

// listen settles slots after each wake-up of the process, until the process ends.
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

// look settles slots and assigns the requests that are due soon. It reports whether the process still runs.
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

// assignDue claims connections for the requests released before horizonNS.
func (l *senderProcess) assignDue(horizonNS int64) {
	if l.run.stop.Load() {
		return
	}
	again := l.retry
	l.retry = l.spare[:0]
	l.spare = again
	for _, i := range again {
		l.assignOne(i)
		l.yieldLock()
	}
	for l.assigned < len(l.slots) && l.slots[l.assigned].releaseNS < horizonNS {
		l.assignOne(int32(l.assigned))
		l.assigned++
		l.yieldLock()
	}
}

// yieldLock lets others settle slots between two assignments: encrypting a long prompt takes milliseconds.
func (l *senderProcess) yieldLock() {
	if l.ring != nil {
		l.mu.Unlock()
		l.mu.Lock()
	}
}

// assignOne claims a connection for request i. If it gets none, the next look tries again, until the request's instant.
func (l *senderProcess) assignOne(i int32) {
	s := &l.slots[i]
	if s.state.Load() != slotEmpty {
		return // missed meanwhile
	}
	if !l.run.work.Prebuilt.Ready(int(i)) || l.ring != nil && !l.ring.fits(l.encryptedSize(i), l.inRing) {
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
			p.returnIdle(c) // the process does not have its descriptor yet
			l.retry = append(l.retry, i)
			return
		}
		if c.assign(i, s) {
			return
		}
	}
}

// encryptedSize is the most room that request i may take in the TLS ring.
func (l *senderProcess) encryptedSize(i int32) int64 {
	b := l.run.work.Prebuilt.List(int(i))
	return wire.EncryptedSize(b.Len(), b.Pieces())
}

// encrypt encrypts request i for its connection into the TLS ring. If it fails, the connection can carry nothing any
// more.
func (l *senderProcess) encrypt(i int32, s *slot, c *conn) bool {
	var err error
	if l.encrypted, err = c.sock.Encrypt(l.encrypted[:0], l.run.bytesOf(i, false)); err != nil {
		return false
	}
	s.offset = ^l.ring.add(i, l.encrypted)
	s.segments = 0
	s.size = int64(len(l.encrypted))
	return true
}

// inRing reports whether the bytes at a place of the TLS ring are still to be written for request i.
func (l *senderProcess) inRing(i int32, place int64) bool {
	s := &l.slots[i]
	switch s.state.Load() {
	case slotAssigned, slotSending, slotPart:
		return s.offset == ^place
	}
	return false
}

// bytesOf returns the bytes that a sender writes for request i.
func (l *senderProcess) bytesOf(i int32) gather.List {
	if s := &l.slots[i]; s.offset < 0 {
		return gather.Of(l.ring.bytes[^s.offset:][:s.size])
	}
	return l.run.work.Prebuilt.List(int(i))
}

// reassign gives request i another connection, since the one claimed for it died before its instant.
func (l *senderProcess) reassign(i int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.assignOne(i)
}

// skip takes the first n slots out of the plan. Call it before the senders start.
func (l *senderProcess) skip(n int) {
	for i := range n {
		l.slots[i].state.Store(slotAbandoned)
	}
	l.assigned = n
	l.scanned = int64(n)
	l.header.claimed.Store(int64(n))
	for i := range l.header.sender {
		l.header.sender[i].at.Store(int64(n))
	}
}

// settleSlots settles the slots that senders are done with and that no receiver will settle. A sender may be done
// with a slot while another one is still at an earlier slot.
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

// settlePartial continues request i, of which the kernel did not take all, or nothing.
func (l *senderProcess) settlePartial(i int32, s *slot) {
	switch s.state.Load() {
	case slotPart:
		s.state.Store(slotSettled)
		l.run.connOf(s).finishWrite(i, s, false)
	case slotFailed:
		s.state.Store(slotSettled)
		c := l.run.connOf(s)
		c.sock.Shutdown() // so that the reader's side ends too
		c.finishWrite(i, s, true)
	}
}

// abandonRest ends the requests that no sender will send, and gives their connections back.
func (l *senderProcess) abandonRest() {
	why := l.run.notItsTime()
	if !l.header.ended.Load() {
		how := l.exitReason()
		l.header.ended.Store(true)
		if !l.run.stop.Load() && l.header.passed() < int64(len(l.slots)) {
			why = how
			l.run.died = how
			l.run.Stop()
			l.run.cfg.OnSenderDeath(how)
		}
	}
	var left []int32
	for i := l.header.passed(); i < int64(len(l.slots)); i++ {
		if l.abandon(int32(i)) {
			left = append(left, int32(i))
		}
	}
	if l.run.endedEarly.Load() {
		l.run.skip(left)
		return
	}
	for _, i := range left {
		l.run.fail(i, record.NotSent, why)
	}
}

// exitReason waits for the end of the process, which has closed its link, and returns how it ended.
func (l *senderProcess) exitReason() string {
	_ = l.cmd.Process.Kill() // has no effect on one that is ending
	_ = l.cmd.Wait()
	how := l.cmd.ProcessState.String() // "exit status 2", "signal: killed"
	if status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		how += ", which the kernel sends if memory is short: see dmesg"
	}
	return fmt.Sprintf("the sending process (pid %d) died during the run (%s)", l.cmd.Process.Pid, how)
}

// abandon takes request i from the process, and reports whether nobody will send it. If it was sent, abandon settles
// the slot, or leaves that to the receiver.
func (l *senderProcess) abandon(i int32) (unsent bool) {
	s := &l.slots[i]
	switch s.state.Load() {
	case slotPart, slotFailed:
		l.settlePartial(i, s)
	case slotSending: // the sender died in its write: the response shows whether the request was sent
		s.sentNS = max(s.sentNS, s.releaseNS) // it may have died before it noted the instant
		s.wrote = -int64(errSenderGone)
		s.state.Store(slotSettled)
		l.run.connOf(s).finishWrite(i, s, true)
	case slotWhole, slotSettled: // the receiver's
	default:
		if s.state.CompareAndSwap(slotAssigned, slotAbandoned) {
			c := l.run.connOf(s) // which nobody else uses now
			c.state.Store(claimed)
			c.unclaim()
		}
		s.state.Store(slotAbandoned)
		return true
	}
	return false
}

// killGrace is how long the process may take to end when the run is aborted: one that is stopped by a signal never
// ends.
const killGrace = time.Second

// killAfter kills the process some time after ctx has ended, unless its senders have ended by then.
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
		_ = l.link.Close() // the process ends then
	}
	if l.cmd != nil {
		if !l.header.ended.Load() {
			_ = l.cmd.Process.Kill()
		}
		_ = l.cmd.Wait()
	}
}

// passSocket sends a connection's descriptor to the process. The connection can be assigned when the process has
// taken seq messages.
func (l *senderProcess) passSocket(key uint64, s *wire.Socket) (seq int64, err error) {
	if failed := s.Control(func(fd uintptr) {
		seq, err = l.sendMessage(
			linkOpen,
			key,
			syscall.UnixRights(int(fd)),
		)
	}); failed != nil {
		return 0, failed
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || l.header.ended.Load() {
		err = nil // it has ended, or died, and needs no more connections
	}
	return seq, err
}

// sendMessage sends a message and returns how many messages have been sent.
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

// CheckSenderProcess returns why a process of its own, which receives no responses, cannot send a plan's requests;
// nil if it can. If late, it is decided in here where a request goes when it leaves. With live responses decide what
// requests carry.
func CheckSenderProcess(plan *sched.Plan, late, live bool) error {
	switch {
	case !plan.Open():
		return errors.New("a closed loop has no deadlines to keep")
	case plan.Cap > 0:
		return errors.New("responses, which come in here, release what --concurrency holds back")
	case plan.Dependencies != nil:
		return errors.New("turns that wait for answers are released by responses, which come in here")
	case late:
		return errors.New("where a request goes is decided by responses or by who is there, both known in here")
	case live:
		return errors.New("live history is made of responses, which come in here")
	}
	return nil
}

// whyNoSenderProcess returns why a run cannot have senders in a process of their own; nil if it can.
func whyNoSenderProcess(w *workload.Work, h *history.History) error {
	if err := CheckSenderProcess(&w.Plan, w.Routing.Late, h != nil); err != nil {
		return err
	}
	if w.Prebuilt.File() == nil {
		return errors.New("this system has no memory that processes can share")
	}
	return nil
}
