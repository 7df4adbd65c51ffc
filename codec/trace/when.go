package trace

import "math"

const (
	noTime  = math.MinInt64 // the instant of a row that says none
	noDelay = -1
)

// settleTimes finds the instants of rows that say none: the next turn of a conversation comes its delay after the one before.
// Where no row says when, all are at 0. What has no time among others that have one becomes a fault.
func (l *loader) settleTimes() {
	if l.timed == len(l.timeNS) {
		return
	}
	if l.timed == 0 {
		clear(l.timeNS)
		return
	}
	latest := map[int64]int64{} // of conversations
	for i, at := range l.timeNS {
		session := noSession(i)
		if l.session != nil {
			session = l.session[i]
		}
		if at == noTime && l.delay != nil && l.delay[i] != noDelay {
			if before, known := latest[session]; known && before <= math.MaxInt64-l.delay[i] {
				at = before + l.delay[i]
				l.timeNS[i] = at
				l.lint.Delayed++
			}
		}
		if at == noTime {
			l.fault(Fault{File: l.files[l.fileOf(l.row[i])].name, Line: int(l.line[i]), What: "missing " + l.format.names[timestampField],
				Fix: "other rows have one: give it one too, or a delay after an earlier turn of its session"})
			l.leaveOut(int32(i))
			continue
		}
		latest[session] = at
	}
}

// leaveOut takes a row out of what can be used.
func (l *loader) leaveOut(row int32) {
	if l.unusable == nil {
		l.unusable = make(map[int32]bool)
	}
	l.unusable[row] = true
}
