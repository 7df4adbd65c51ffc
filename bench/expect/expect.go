// Package expect fails a test, which goes on. Tests of every package may import it. What is compared is told by about:
// a value, or a format and its arguments.
//
// The package is not an API: any release may change it.
package expect

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// Equal fails the test unless got is want.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%s\ngot  %+v\nwant %+v", What(about), got, want)
	}
}

// List fails the test unless got has the elements of want in the same order.
func List[T comparable](t testing.TB, got, want []T, about ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Errorf("%s\ngot  %+v\nwant %+v", What(about), got, want)
	}
}

// Contains fails the test unless the text contains the words.
func Contains(t testing.TB, text, words string, about ...any) {
	if !strings.Contains(text, words) {
		t.Helper()
		t.Errorf("%s\ngot  %s\nwant %q in it", What(about), text, words)
	}
}

// Lacks fails the test if the text contains the words.
func Lacks(t testing.TB, text, words string, about ...any) {
	if strings.Contains(text, words) {
		t.Helper()
		t.Errorf("%s\ngot  %s\nwant no %q in it", What(about), text, words)
	}
}

// Near fails the test if got is further from want than that, or is no number.
func Near(t testing.TB, got, want, most float64, about ...any) {
	if !(math.Abs(got-want) <= most) {
		t.Helper()
		t.Errorf("%s\ngot  %v\nwant %v ± %v", What(about), got, want, most)
	}
}

// Error fails the test unless err is an error whose text contains the words.
func Error(t testing.TB, err error, words string, about ...any) {
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Helper()
		t.Errorf("%s\ngot  %v\nwant an error with %q", What(about), err, words)
	}
}

// Refused returns a function that is Error for what a call returned beside a value: expect.Refused(f())(t, words).
func Refused[T any](_ T, err error) func(t testing.TB, words string, about ...any) {
	return func(t testing.TB, words string, about ...any) {
		t.Helper()
		Error(t, err, words, about...)
	}
}

// What is the text of about.
func What(about []any) string {
	if len(about) > 1 {
		return fmt.Sprintf(about[0].(string), about[1:]...)
	}
	return fmt.Sprint(about...)
}
