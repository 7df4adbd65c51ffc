//go:build unix && !linux

package host

// Cards is not available here.
func Cards() []Card { return nil }
