package trace

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestWords compares the word trick with a loop over bytes, on words that mix the bytes around every boundary.
func TestWords(t *testing.T) {
	edges := []byte{0, 1, ' ' - 1, ' ', '!', '"', '#', '/', '0', '1', '5', '8', '9', ':', '[', '\\', ']', 0x7f, 0x80, 0xb0, 0xb9, 0xc6, 0xff}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500_000 {
		var b [8]byte
		for i := range b {
			b[i] = edges[rng.IntN(len(edges))]
			if rng.IntN(2) == 0 {
				b[i] = '0' + byte(rng.IntN(10))
			}
		}
		word := binary.LittleEndian.Uint64(b[:])
		digits := 0
		for digits < 8 && b[digits] >= '0' && b[digits] <= '9' {
			digits++
		}
		want, _ := strconv.ParseUint(string(b[:digits]), 10, 64)
		if v, n := leadingDigits(word); n != digits || v != want {
			t.Fatalf("leadingDigits(%q) = %d, %d; want %d, %d", b, v, n, want, digits)
		}
	}
}

func TestPlainNumber(t *testing.T) {
	for _, c := range []struct {
		in string
		v  uint64
		n  int
	}{
		{"", 0, 0}, {"x", 0, 0}, {"7", 7, 1}, {"0,", 0, 1}, {"01", 0, 0}, {"0000000000", 0, 0}, {"12345678", 12345678, 8}, {"123456789,1234567", 123456789, 9},
		{"1234567,", 1234567, 7}, {"9999999999999999999", 9999999999999999999, 19}, {"9999999999999999999]      ", 9999999999999999999, 19},
		{"10000000000000000000", 0, 0}, {"18446744073709551615", 0, 0},
	} {
		if v, n := plainNumber([]byte(c.in), 0); n != c.n || n > 0 && v != c.v {
			t.Errorf("plainNumber(%q) = %d, %d; want %d, %d", c.in, v, n, c.v, c.n)
		}
	}
}
