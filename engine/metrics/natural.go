package metrics

import (
	"cmp"
	"strings"
)

// natural orders names as people do, digits by their value: mock-2 before mock-10. What is equal then is ordered as text.
func natural(x, y string) int {
	a, b := x, y
	for a != "" && b != "" {
		n, m := digitsOf(a), digitsOf(b)
		if n == "" || m == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		a, b = a[len(n):], b[len(m):]
		n, m = strings.TrimLeft(n, "0"), strings.TrimLeft(m, "0") // then the longer is the greater
		if c := cmp.Or(cmp.Compare(len(n), len(m)), strings.Compare(n, m)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(x, y))
}

// digitsOf is the digits that s begins with.
func digitsOf(s string) string { return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))] }
