package worlds

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestWilson: the interval of 4 of 100 is the published one.
func TestWilson(t *testing.T) {
	expect.Equal(t, (Share{4, 100}).String(), "4.0 [1.6, 9.8]")
	expect.Equal(t, (Share{}).String(), "–")
}
