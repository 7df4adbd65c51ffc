package format

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestNumbers prints the numbers of testdata/numbers.txt.
func TestNumbers(t *testing.T) {
	f := must.Have(NewFiller(map[string]any{}))(t)
	f.Printers["many row"] = func(v float64) string { return Many(int64(v), "row") }
	f.Printers["3 digits of ns"] = func(v float64) string { return Duration(v, 3) }
	f.Printers["4 digits of ns"] = func(v float64) string { return Duration(v, 4) }
	for line := range strings.Lines(string(must.Have(os.ReadFile("testdata/numbers.txt"))(t))) {
		given, want, is := strings.Cut(strings.TrimSuffix(line, "\n"), " → ")
		if !is {
			continue
		}
		at := strings.LastIndex(given, " ")
		v := must.Have(strconv.ParseFloat(given[at+1:], 64))(t)
		expect.Equal(t, f.Printers[given[:at]](v), want, given)
	}
	for _, c := range [][2]string{
		{Count(math.MaxInt64), "9,223,372,036,854,775,807"}, {Count(math.MinInt64), "-9,223,372,036,854,775,808"},
		{Bytes(math.MaxInt64), "9,220 PB"},
	} {
		expect.Equal(t, c[0], c[1], "printed as")
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
