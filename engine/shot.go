package engine

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// A shot is one request as the lanes' process sees it, in memory that both processes share. The replay fills in what is
// to be written and on which connection, a lane writes it at its instant and leaves the result.
type shot struct {
	releaseNS    int64
	offset, size int64         // of the bytes in the arena; where offset is below 0, at ^offset in the stage
	conn         atomic.Uint64 // see connKey; valid while armed
	state        atomic.Uint32
	errno        int32
	sentNS       int64 // just before the write
	writtenNS    int64 // just after it
	wrote        int64 // bytes that the kernel took
}

// The states of a shot. The replay arms and disarms it, a lane takes it from armed or empty, and whoever takes it from
// whole, part, failed or missed to settled puts the result into the record. All by compare-and-swap.
const (
	shotEmpty     uint32 = iota // no connection is claimed for it
	shotArmed                   // one is
	shotFiring                  // the lane is writing
	shotWhole                   // the kernel took all of it
	shotPart                    // it took less
	shotFailed                  // it took nothing, see errno
	shotMissed                  // its instant came and it was empty
	shotSettled                 // the result is where it belongs
	shotAbandoned               // it will not be sent
)

// connKey names a connection to the lane: its place in the lane's table, and which of the place's connections it is.
func connKey(place, generation uint32) uint64 { return uint64(generation)<<32 | uint64(place) }

// laneBoard is the head of the shared memory.
type laneBoard struct {
	realtimeOn, realtimeOff uint32 // the mode; neither is auto
	spinNS                  int64  // sched.AutoSpin, or a time
	lanes                   int64
	shots                   int64
	arenaBytes              int64
	stageBytes              int64 // 0 = there is no stage
	places                  int64 // of connections

	ready   atomic.Uint32 // laneWaits, lanePlaced or laneRefused
	fifo    uint32        // the placement, valid once ready
	short   uint32
	refused [160]byte // why SCHED_FIFO was not granted; zero-terminated

	startNS atomic.Int64 // CLOCK_MONOTONIC of instant 0; 0 = not yet
	stop    atomic.Bool  // nothing more is released
	ended   atomic.Bool  // the lanes release nothing more
	claimed atomic.Int64 // shots before this one belong to some lane
	fired   atomic.Int64 // shots that were written
	taken   atomic.Int64 // messages on the link that the process has acted on
	lane    [MostLanes]laneState
}

// laneState is what a lane tells of itself.
type laneState struct {
	at     atomic.Int64 // it has passed those of its shots that come before this one
	spinNS atomic.Int64 // how long before an instant it stopped sleeping, in the end
	thread int64        // its id, once the board is ready
	_      [40]byte     // to a cache line
}

// passed is the first shot that some lane has not passed, or may yet claim.
func (b *laneBoard) passed() int64 {
	first := b.shots
	for i := range b.lanes {
		first = min(first, b.lane[i].at.Load())
	}
	return first
}

// spin is the largest window of its lanes.
func (b *laneBoard) spin() time.Duration {
	most := int64(0)
	for i := range b.lanes {
		most = max(most, b.lane[i].spinNS.Load())
	}
	return time.Duration(most)
}

// The values of laneBoard.ready.
const (
	laneWaits uint32 = iota
	lanePlaced
	laneRefused
)

// boardBytes is the room of the board before the first shot: whole cache lines.
const boardBytes = (unsafe.Sizeof(laneBoard{}) + 63) / 64 * 64

func boardSize(shots int) int64 { return int64(boardBytes) + int64(shots)*int64(unsafe.Sizeof(shot{})) }

// boardOf lays a board over shared memory.
func boardOf(memory []byte) *laneBoard { return (*laneBoard)(unsafe.Pointer(&memory[0])) }

// shotsOf lays the shots over the memory behind the board.
func shotsOf(memory []byte, n int) []shot {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*shot)(unsafe.Pointer(&memory[boardBytes])), n)
}
