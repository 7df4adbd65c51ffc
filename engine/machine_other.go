//go:build !linux

package engine

import "github.com/fastreplay/fastreplay/codec/record"

// machineMeters know nothing here.
type machineMeters struct{}

func openMachine([]int) *machineMeters { return new(machineMeters) }

func (*machineMeters) read() meters {
	return meters{stolen: record.None, throttled: record.None, waited: record.None}
}

func (*machineMeters) close() {}

func taskWaits() map[int]int64 { return nil }

func threadID() int { return 0 }
