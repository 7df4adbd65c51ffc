package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
)

func TestParseSLOs(t *testing.T) {
	for _, tt := range []struct {
		lists []string
		want  string // name=ns
	}{
		{nil, ""},
		{[]string{"ttft:500 tpot:50"}, "ttft=500000000 tpot=50000000"},
		{[]string{"tpot:50", "ttft:500"}, "ttft=500000000 tpot=50000000"},
		{[]string{"ttft:500,tpot:50"}, "ttft=500000000 tpot=50000000"},
		{[]string{" e2e_planned:1e3 ,\tttft_planned:0.5\n", "e2e:1000000000"}, "ttft_planned=500000 e2e=1000000000000000 e2e_planned=1000000000"},
		{[]string{"time_to_first_token:100 inter_token_latency:3.40"}, "ttft=100000000 tpot=3400000"},
		{[]string{"e2el:12.345678"}, "e2e=12345678"},
		{[]string{"request_latency:0.000001"}, "e2e=1"},
		{[]string{"ttft:1.5s tpot:500us"}, "ttft=1500000000 tpot=500000"},
	} {
		slos, err := ParseSLOs(tt.lists...)
		var got []string
		for _, o := range slos {
			got = append(got, fmt.Sprintf("%s=%d", latencies[o.Latency].Key, o.LimitNS))
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %q, %v; want %q", tt.lists, got, err, tt.want)
		}
	}
}

func TestParseSLOErrors(t *testing.T) {
	const bound, colon = "want a time above 0, such as 500 or 500ms, of at most 1000000000 ms", "want NAME:TIME, such as ttft:500ms"
	for list, want := range map[string]string{
		"":                     `"" has no SLO in it; ` + colon,
		" , ":                  `" , " has no SLO in it; ` + colon,
		"ttft":                 `"ttft" has no colon; ` + colon,
		"ttft: 500":            `"ttft:": ` + bound,
		"ttft:-1":              `"ttft:-1": ` + bound,
		"ttft:0":               `"ttft:0": ` + bound,
		"ttft:0.0000001":       `"ttft:0.0000001": ` + bound,
		"ttft:NaN":             `"ttft:NaN": ` + bound,
		"ttft:Inf":             `"ttft:Inf": ` + bound,
		"ttft:1e999":           `"ttft:1e999": ` + bound,
		"ttft:1000000001":      `"ttft:1000000001": ` + bound,
		"ttft:500h":            `"ttft:500h": ` + bound,
		"ttft:1:2":             `"ttft:1:2": ` + bound,
		"ttft:5 ttft:6":        `"ttft:6": ttft has a bound already`,
		"e2e_planned:1":        `"e2e_planned:1": e2e_planned has a bound already`,
		"e2e:5,e2el:5":         `"e2el:5": e2e has a bound already`,
		"itl:5":                "itl has many values in one request; bound their mean with tpot, which AIPerf calls inter_token_latency",
		"throughput:5":         `"throughput" is no latency of a request; there are ttft, ttft_planned, ttfo, ttfo_planned, tpot, ntpot, e2e, e2e_planned (and, as others call them, time_to_first_token, time_to_first_output_token, inter_token_latency, normalized_time_per_output_token, e2el, request_latency)`,
		":5":                   `"" is no latency of a request`,
		"TTFT:5":               `"TTFT" is no latency`,
		"ttft:5 tpot=7 e2e:10": `"tpot=7" has no colon`,
	} {
		slos, err := ParseSLOs("e2e_planned:1", list)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, %v; want %q", list, slos, err, want)
		}
	}
}

// TestBoundOfTokensAtOnce: of 11 tokens that came at one instant, 100 ms after sending, the TPOT is unknown and at most 10 ms.
// It meets a bound of that, and exceeds one below.
func TestBoundOfTokensAtOnce(t *testing.T) {
	var r record.Record
	r.Clear()
	r.Outcome, r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.Chunks, r.CompletionTokens = record.OK, 0, 100e6, 100e6, 11, 11
	for limit, exceeds := range map[int64]bool{10e6: false, 10e6 - 1: true} {
		bound := SLO{Latency: TPOT, LimitNS: limit}
		if bound.Met(&r) == exceeds || bound.Exceeds(&r) != exceeds {
			t.Errorf("within %d ns: met %v, exceeded %v", limit, bound.Met(&r), bound.Exceeds(&r))
		}
	}
	r.CompletionTokens = 1
	if bound := (SLO{Latency: TPOT, LimitNS: 1}); bound.Met(&r) || bound.Exceeds(&r) {
		t.Error("an answer of one token has a TPOT")
	}
}

// TestSLOsOfOwners: a bound of an owner takes the place of the one for all, in its latency alone, as a plain table says.
func TestSLOsOfOwners(t *testing.T) {
	slos, err := ParseSLOs("ttft:200 e2e:1000", "class=gold ttft:100", "tenant=a ttft:150ms,tpot:10")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range slos {
		names = append(names, slos[i].Name())
	}
	if want := "ttft, class=gold ttft, tenant=a ttft, tenant=a tpot, e2e"; strings.Join(names, ", ") != want {
		t.Errorf("%v, want %s", names, want)
	}
	for _, class := range []string{"", "gold", "free"} {
		for _, tenant := range []string{"", "a", "b"} {
			limits := []int64{200}
			if class == "gold" || tenant == "a" {
				limits = nil
			}
			if class == "gold" {
				limits = append(limits, 100)
			}
			if tenant == "a" {
				limits = append(limits, 150)
			}
			for ms := int64(50); ms <= 250; ms += 10 {
				var r record.Record
				r.Clear()
				r.Class, r.Tenant, r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = class, tenant, 0, ms*1e6, ms*1e6, ms*1e6
				r.CompletionTokens, r.Chunks = 11, 2
				r.LastTokenNS += 10 * 5e6 // TPOT 5 ms
				want := !slices.ContainsFunc(limits, func(limit int64) bool { return ms > limit })
				expect.Equal(t, !slices.ContainsFunc(slos, func(o SLO) bool { return !o.Met(&r) }), want, "class %q, tenant %q, TTFT %d ms: met", class, tenant, ms)
			}
		}
	}
	for list, want := range map[string]string{
		"class=gold": "has no SLO in it", "class=gold ttft:1 ttft:2": `class=gold ttft has a bound already`, "colour=red ttft:1": "no colon",
	} {
		expect.Refused(ParseSLOs(list))(t, want, list)
	}
}
