// Package must ends a test where it cannot go on. Tests of every package may import it.
//
// The package is not an API: any release may change it.
package must

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// Have returns a function that returns v, or ends the test if there is an error: v := must.Have(f())(t).
func Have[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Do ends the test if there is an error. What was done is told by about, as in package expect.
func Do(t testing.TB, err error, about ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(expect.What(about), err)
	}
}

// Equal is expect.Equal, and ends the test if it fails.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	if got != want {
		t.Helper()
		expect.Equal(t, got, want, about...)
		t.FailNow()
	}
}
