// Package expect fails a test, which goes on. Tests of every package may import it.
//
// The package is not an API: any release may change it.
package expect

import (
	"fmt"
	"testing"
)

// Equal fails the test unless got is want. What the two are is told by about: a value, or a
// format and its arguments.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	if got == want {
		return
	}
	t.Helper()
	what := fmt.Sprint(about...)
	if len(about) > 1 {
		what = fmt.Sprintf(about[0].(string), about[1:]...)
	}
	t.Errorf("%s\ngot  %+v\nwant %+v", what, got, want)
}
