package prompt

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// span is the ids from first to last.
func span(first, last int) (ids []int) {
	for id := first; id <= last; id++ {
		ids = append(ids, id)
	}
	return ids
}

func TestIDsThatAreUsed(t *testing.T) {
	cases := []struct {
		given       []int
		first, last int
	}{
		{BuiltInIDs(), 10000, 31999},
		{span(1024, 31999), 10000, 31999},
		{span(0, 50256), 10000, 50256},
		{span(0, 9999), 1000, 9999},
		{span(5000, 11999), 5000, 9999},
		{span(5000, 14999), 10000, 14999},          // the longer of two equals
		{span(256, 127999), 10000, 75535},          // no more than a column holds
		{span(90000, 899999), 100000, 165535},      //
		{span(1000000, 1000999), 1000000, 1000999}, // the fewest that will do
		{span(9999000, 9999999), 9999000, 9999999},
	}
	for _, c := range cases {
		source, err := NewTokenIDs(1, c.given)
		if err != nil {
			t.Errorf("%d ids from %d: %v", len(c.given), c.given[0], err)
			continue
		}
		if first, last := source.Range(); first != c.first || last != c.last {
			t.Errorf("%d ids from %d: uses %d to %d, want %d to %d", len(c.given), c.given[0], first, last, c.first, c.last)
		}
	}
}

func TestIDsThatCannotWork(t *testing.T) {
	cases := []struct {
		given []int
		says  string
	}{
		{nil, "at most 0 of them"},
		{span(-1, 4999), "token id -1: want ids from 0 to 9999999 in order"},
		{span(9000000, 10000000), "token id 10000000: want"},
		{[]int{1, 1}, "token id 1: want"},
		{[]int{5, 4}, "token id 4: want"},
		{span(5000, 5998), "at most 999 of them have the same number of digits, and 1000 are needed"},
		{span(9001, 10998), "at most 999 of them"},
		{span(0, 0), "at most 1 of them"},
	}
	for _, c := range cases {
		expect.Refused(NewTokenIDs(1, c.given))(t, c.says, "%d ids", len(c.given))
	}
}
