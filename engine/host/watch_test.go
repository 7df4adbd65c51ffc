package host

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

func TestGrown(t *testing.T) {
	const none = unknown
	for _, tt := range []struct {
		readings []int64
		want     int64
	}{
		{nil, none}, {[]int64{none}, none}, {[]int64{5}, 0}, {[]int64{5, 8, 9}, 4}, {[]int64{5, 5}, 0}, {[]int64{0, 7}, 7},
		{[]int64{5, 4}, 0}, {[]int64{5, 9, 2, 10}, 5}, // a counter that falls back
		{[]int64{5, none, 8}, 3}, {[]int64{none, 5, 8, none}, 3}, // readings that fail
	} {
		c := meter{nil, none, none}
		for _, v := range tt.readings {
			c.observe(v, v != none)
		}
		expect.Equal(t, growth(c), tt.want, "%v: grown by", tt.readings)
		if got, want := growth(c, meter{nil, none, none}, meter{nil, 10, 13}), max(0, tt.want)+3; got != want {
			t.Errorf("%v, one unknown, and 3 more: grown by %d, want %d", tt.readings, got, want)
		}
	}
}

func TestWaitedSince(t *testing.T) {
	for _, tt := range []struct {
		before, after map[int]int64
		except        []int
		want          int64
	}{
		{nil, nil, nil, unknown},
		{map[int]int64{1: 5}, nil, nil, unknown},
		{nil, map[int]int64{1: 5, 2: 7}, nil, 12}, // begun meanwhile
		{map[int]int64{1: 2, 2: 7, 3: 9}, map[int]int64{1: 5, 2: 7}, nil, 3},
		{map[int]int64{1: 20}, map[int]int64{1: 5, 2: 1}, nil, 1}, // another thread of that id
		{map[int]int64{1: 2, 2: 7}, map[int]int64{1: 5, 2: 11}, []int{1, 9}, 4},
		{map[int]int64{1: 2}, map[int]int64{1: 5}, []int{1}, 0},
	} {
		expect.Equal(t, waitedSince(tt.before, tt.after, tt.except), tt.want, "from %v to %v without %v", tt.before, tt.after, tt.except)
	}
}
