// Package must ends a test at an error that has nothing to do with what it tests.
//
// The package is not an API: any release may change it.
package must

import "testing"

// Have returns a function that returns v, or ends the test if there is an error: v := must.Have(f())(t).
func Have[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test if there is an error.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
