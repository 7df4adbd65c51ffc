package metrics

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNatural sorts shuffled names; no two of them are equal, in either order.
func TestNatural(t *testing.T) {
	want := []string{
		"", "0", "00", "01", "1", "1a", "2", "10", "127.0.0.1:9000", "127.0.0.1:10000", "127.0.0.2:80", "18446744073709551616", "18446744073709551617",
		"mock", "mock-", "mock-1", "mock-2", "mock-2-a", "mock-2-b", "mock-10", "mock-a", "pod", "ö",
	}
	for seed := range uint64(50) {
		got := slices.Clone(want)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		if slices.SortFunc(got, natural); !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
	for i, x := range want {
		for j, y := range want {
			if c := natural(x, y); (c < 0) != (i < j) || (c > 0) != (i > j) {
				t.Errorf("natural(%q, %q) = %d", x, y, c)
			}
		}
	}
}
