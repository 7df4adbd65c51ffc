//go:build !linux

package engine

import "github.com/fastreplay/fastreplay/codec/record"

// machineMeters know nothing here.
type machineMeters struct{ tasks taskWaits }

type taskWaits struct{ total int64 }

func openMachine([]int) *machineMeters { return &machineMeters{taskWaits{record.None}} }

func (*machineMeters) read() meters {
	return meters{stolen: record.None, throttled: record.None, waited: record.None}
}

func (*machineMeters) close() {}

func (*taskWaits) read() {}

func threadID() int { return 0 }
