package host

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

func TestQuotaCores(t *testing.T) {
	for text, want := range map[string]float64{"": 0, " ": 0, "max 100000": 0, "-1 100000": 0, "150000 100000": 1.5, "50000 100000": 0.5, "100000": 0, "1 0": 0} {
		expect.Equal(t, quotaCores(text), want, "%q: cores", text)
	}
}

func TestParseBusy(t *testing.T) {
	for _, tt := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n", 1.63, true},
		{"cpu0 100 20 30 4000 500 6 7 8", 0, false},
		{"cpu  100 20", 0, false},
		{"", 0, false},
	} {
		if got, ok := parseBusy(tt.text); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%q: %g s, %v; want %g, %v", tt.text, got, ok, tt.want, tt.ok)
		}
	}
}
