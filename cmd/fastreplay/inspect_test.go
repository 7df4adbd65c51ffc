package main

import (
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

func TestParseTokens(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int64
	}{
		{"", nil},
		{"512", []int64{512}},
		{"3M,10M", []int64{3_000_000, 10_000_000}},
		{"10M, 3M,3000k", []int64{3_000_000, 10_000_000}},
		{"1.5G,64K", []int64{64_000, 1_500_000_000}},
	} {
		if got, err := parseTokenList(c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"0", "-1", "M", "3MB", "1,,2", "1e30", "NaN", "0.5", "3 M M"} {
		expect.Refused(parseTokenList(text))(t, "", text)
	}
}
