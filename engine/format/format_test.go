package format

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestNumbers(t *testing.T) {
	for _, c := range [][2]string{
		{Count(0), "0"}, {Count(7), "7"}, {Count(999), "999"}, {Count(1000), "1,000"}, {Count(-1), "-1"}, {Count(-999), "-999"},
		{Count(-1000), "-1,000"}, {Count(12031), "12,031"}, {Count(144793823), "144,793,823"},
		{Count(math.MaxInt64), "9,223,372,036,854,775,807"}, {Count(math.MinInt64), "-9,223,372,036,854,775,808"},

		{Many(0, "row"), "0 rows"}, {Many(1, "row"), "1 row"}, {Many(2, "row"), "2 rows"}, {Many(1200, "row"), "1,200 rows"},

		{Percent(0), "0 %"}, {Percent(1), "100 %"}, {Percent(0.01), "1 %"}, {Percent(0.3736), "37.36 %"}, {Percent(0.373649), "37.36 %"},
		{Percent(1.0 / 3), "33.33 %"}, {Percent(0.000083), "0.0083 %"}, {Percent(0.0000001), "0.00001 %"}, {Percent(25), "2,500 %"},
		{Percent(-0.5), "-50 %"},

		{Short(0), "0"}, {Short(0.5), "0.5"}, {Short(950), "950"}, {Short(999.4), "999"}, {Short(999.6), "1k"}, {Short(30_000), "30k"},
		{Short(20_480), "20.5k"}, {Short(999_499), "999k"}, {Short(999_500), "1M"}, {Short(1_500_000), "1.5M"}, {Short(3e9), "3G"},

		{Number(0, 3), "0.00"}, {Number(0.00012345, 3), "0.000123"}, {Number(0.1, 3), "0.100"}, {Number(0.0999, 3), "0.0999"},
		{Number(0.9999, 3), "1.00"}, {Number(1000, 3), "1,000"}, {Number(1, 3), "1.00"}, {Number(9.996, 3), "10.0"}, {Number(99.96, 3), "100"},
		{Number(12345, 3), "12,300"}, {Number(-1.5, 3), "-1.50"},

		{Rate(0), "0.00"}, {Rate(3.4), "3.40"}, {Rate(99.94), "99.9"}, {Rate(99.95), "100"}, {Rate(204.3), "204"}, {Rate(2458123.4), "2,458,123"},
		{Rate(-3.4), "-3.40"},

		{Bytes(0), "0 B"}, {Bytes(999), "999 B"}, {Bytes(1000), "1.00 kB"}, {Bytes(999_499), "999 kB"}, {Bytes(999_500), "1.00 MB"},
		{Bytes(1_240_000_000), "1.24 GB"}, {Bytes(-2048), "-2.05 kB"}, {Bytes(math.MaxInt64), "9,220 PB"},
	} {
		expect.Equal(t, c[0], c[1], "printed as")
	}
}

func TestDuration(t *testing.T) {
	tests := []struct {
		ns   float64
		d    int
		want string
	}{
		{0, 3, "0 ns"}, {1, 3, "1 ns"}, {412, 3, "412 ns"}, {999, 3, "999 ns"}, {-412, 3, "-412 ns"},
		{412.4, 3, "412 ns"}, {999.6, 3, "1.00 µs"}, {1000, 3, "1.00 µs"}, {12149, 3, "12.1 µs"}, {999499, 3, "999 µs"}, {999500, 3, "1.00 ms"},
		{51199588, 3, "51.2 ms"}, {51199588, 4, "51.20 ms"}, {999.96e6, 4, "1.000 s"}, {999.94e6, 4, "999.9 ms"},
		{1.2345e9, 3, "1.23 s"}, {3600e9, 3, "3,600 s"}, {3600e9, 4, "3,600 s"}, {123.4e9, 3, "123 s"}, {-5e6, 3, "-5.00 ms"},
	}
	for _, tt := range tests {
		expect.Equal(t, Duration(tt.ns, tt.d), tt.want, "Duration(%v, %d)", tt.ns, tt.d)
	}
}

// TestDurationIsExact reads every printed duration back: it must be within
// half a unit of its last digit.
func TestDurationIsExact(t *testing.T) {
	units := map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
	for ns := 1.0; ns < 4e12; ns = math.Trunc(ns*1.0173) + 1 {
		for digits := 3; digits <= 4; digits++ {
			text := Duration(ns, digits)
			number, unit, _ := strings.Cut(text, " ")
			v := must.Have(strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64))(t)
			if off := math.Abs(v*units[unit]-ns) / ns; off > 0.5001*math.Pow10(1-digits) {
				t.Fatalf("Duration(%v, %d) = %q is off by %v", ns, digits, text, off)
			}
			if v >= 1000 && unit != "s" {
				t.Fatalf("Duration(%v, %d) = %q: the unit is too small", ns, digits, text)
			}
		}
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain – µ 漢 é": "plain – µ 漢 é", "a\x1b[2Jb": `a\x1b[2Jb`, "\u009b": `\u009b`, "\x9b": `\x9b`, "x\u202ey\u2066": `x\u202ey\u2066`, "\x7f\t\r\n": `\x7f\t\r\n`,
		"\ufffd": "\ufffd", "\U000e0041": `\U000e0041`, "\u2028": `\u2028`,
	} {
		expect.Equal(t, Visible(text), want, "Visible(%q)", text)
	}
	expect.Equal(t, testing.AllocsPerRun(10, func() { Visible("plain – µ 漢 é") }), 0, "allocations for nothing")
	in := "{\"a\\n\u009b\u202e\U000e0041\x7f\":\n1}\n"
	out := VisibleJSON([]byte(in))
	expect.Equal(t, string(out), `{"a\n\u009b\u202e\udb40\udc41\u007f":`+"\n1}\n", "VisibleJSON(%q) = %q", in, out)
}

func TestPage(t *testing.T) {
	long := strings.Repeat("ä", 30)
	p := NewPage(0, 10)
	p.Line("a  ")
	p.Field("none", "", "")
	p.Field("few", "1", "", "2")
	p.Field("many", long, long, long)
	p.Sentence("  - ", strings.Repeat("word ", 20))
	p.Wrap("", "", " ", []string{strings.Repeat("x", 99)}) // what cannot be wrapped
	p.Table(8, []string{"who", "a", "äöü"}, [][]string{{"ä", "1", ""}, {"b", "", "22"}})
	want := "a\n" +
		"  few     1   2\n" +
		"  many    " + long + Gap + long + "\n" +
		"          " + long + "\n" +
		"  - " + strings.TrimSuffix(strings.Repeat("word ", 15), " ") + "\n" +
		"    " + strings.TrimSuffix(strings.Repeat("word ", 5), " ") + "\n" +
		strings.Repeat("x", 99) + "\n" +
		"  who" + strings.Repeat(" ", 66) + "a     äöü\n" +
		"  ä" + strings.Repeat(" ", 68) + "1\n" +
		"  b" + strings.Repeat(" ", 75) + "22\n"
	expect.Equal(t, string(p.Bytes()), want)
	for given, want := range map[int]int{-1: 80, 0: 80, 79: 80, 93: 93, 200: 100} {
		expect.Equal(t, NewPage(given, 9).Width, want, "terminal of %d columns: page", given)
	}
	for s, spaces := range map[string]int{"": 4, "äß": 2, "漢": 2, "123456": 0} {
		gap := strings.Repeat(" ", spaces)
		expect.Equal(t, Left(s, 4), s+gap, s)
		expect.Equal(t, Right(s, 4), gap+s, s)
	}
}

// TestWords: a number stays with its unit.
func TestWords(t *testing.T) {
	want := []string{"it", "took", "3.5 s", "of", "12 %,", "at", "×2 ms"}
	expect.List(t, Words("it took 3.5 s of\n12 %, at ×2 ms"), want)
}

// TestFill: gaps are filled by path, and a text with a value that is not there is left out.
func TestFill(t *testing.T) {
	var v struct {
		Count int64              `json:"count"`
		Share *float64           `json:"share"`
		Deep  map[string]float64 `json:"deep"`
		Name  string             `json:"name"`
	}
	v.Count = 1234
	v.Deep = map[string]float64{"p99": 0.01251}
	v.Name = "50 % {count}"
	f := must.Have(NewFiller(v))(t)
	for text, want := range map[string]string{
		"no gap":                            "no gap",
		"{count count} of {name}":           "1,234 of 50 % {count}",
		"{count many row}, {deep.p99 span}": "1,234 rows, 12.5 ms",
		"{share share} of all":              "",
		"{deep.p50 span}":                   "",
		"{count.p50 span}":                  "",
		"{none some} of {count count}":      "",
	} {
		expect.Equal(t, f.Fill(text), want, text)
	}
	v.Count = 0
	if f, _ := NewFiller(v); f.Fill("{count some} failed") != "" || f.Fill("{count count} failed") != "0 failed" {
		t.Error("0 is left out by some, and by nothing else")
	}
}

// TestCut: a text that is too wide ends with "…" in its columns, and no character is cut in two.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"gpu1:8000", 9, "gpu1:8000"},
		{"gpu1:8000", 8, "gpu1:80…"},
		{"模型服务", 8, "模型服务"},
		{"模型服务", 7, "模型服…"},
		{"模型服务", 6, "模型…"}, // a third one would leave no column for the dots
		{"cafe\u0301s", 5, "cafe\u0301s"},
		{"cafe\u0301s", 4, "caf…"},
		{"👩‍👩‍👧 family", 4, "👩‍👩‍👧 …"},
		{"ab", 1, "…"},
		{"", 3, ""},
	} {
		expect.Equal(t, Cut(c.text, c.n), c.want, "%q in %d columns", c.text, c.n)
	}
}
