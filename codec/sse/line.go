package sse

import "bytes"

// window is how far lineEnd looks for the one kind of line end before it looks for the other: about one event.
const window = 512

// lineEnd returns the index of the first LF or CR, or -1. It looks at stretches that double, so that its cost grows with the
// line and not with what follows it.
func lineEnd(p []byte) int {
	for from, size := 0, window; from < len(p); size *= 2 {
		part := p[from:min(from+size, len(p))]
		lf := bytes.IndexByte(part, '\n')
		if lf >= 0 {
			part = part[:lf]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			return from + cr
		}
		if lf >= 0 {
			return from + lf
		}
		from += len(part)
	}
	return -1
}
