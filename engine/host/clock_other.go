//go:build unix && !linux

package host

// ClockWords says what is known of how right the wall clock is.
func ClockWords() string { return "how right this machine's clock is is unknown" }
