package prompt

import (
	"strings"
	"testing"
)

func TestIDRanges(t *testing.T) {
	cases := []struct{ given, used IDRange }{
		{IDRange{}, IDRange{10000, 32000}},
		{IDRange{1024, 32000}, IDRange{10000, 32000}},
		{IDRange{0, 50257}, IDRange{10000, 50257}},
		{IDRange{0, 10000}, IDRange{1000, 10000}},
		{IDRange{5000, 12000}, IDRange{5000, 10000}},
		{IDRange{5000, 15000}, IDRange{10000, 15000}},          // the longer of two equals
		{IDRange{256, 128000}, IDRange{10000, 75536}},          // no more than a column holds
		{IDRange{90000, 900000}, IDRange{100000, 165536}},      //
		{IDRange{1000000, 1001000}, IDRange{1000000, 1001000}}, // the fewest that will do
		{IDRange{9999000, 10000000}, IDRange{9999000, 10000000}},
	}
	for _, c := range cases {
		source, err := NewTokenIDs(1, c.given)
		if err != nil {
			t.Errorf("%v: %v", c.given, err)
			continue
		}
		if got := source.Range(); got != c.used {
			t.Errorf("%v: uses %v, want %v", c.given, got, c.used)
		}
	}
}

func TestIDRangesThatCannotWork(t *testing.T) {
	cases := []struct {
		given IDRange
		says  string
	}{
		{IDRange{-1, 5000}, "0 <= first < end <= 10000000"},
		{IDRange{5000, 5000}, "0 <= first < end"},
		{IDRange{5000, 4000}, "0 <= first < end"},
		{IDRange{5000, 10000001}, "0 <= first < end"},
		{IDRange{5000, 5999}, "at most 999 of them"},
		{IDRange{9001, 10999}, "at most 999 of them"},
		{IDRange{0, 1}, "at most 1 of them"},
	}
	for _, c := range cases {
		if _, err := NewTokenIDs(1, c.given); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: got error %v, want one with %q", c.given, err, c.says)
		}
	}
}
