package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestLoadBoundNeedsInstances: a bound without routers to compare is refused, not ignored.
func TestLoadBoundNeedsInstances(t *testing.T) {
	const trace = "../../bench/samples/bailian.jsonl"
	for line, want := range map[string]string{
		"--load-bound 2":                 "--load-bound is about --instances",
		"--load-bound 2 --instances 4":   "",
		"--load-bound 0.5 --instances 4": "a load bound of 0.5",
	} {
		c := newInspectCommand()
		c.SetArgs(append(strings.Fields(line), trace))
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.Execute(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("inspect %s: %v, want %q", line, err, want)
		}
	}
}

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
