package format

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", -1: "-1", -999: "-999", -1000: "-1,000", 12031: "12,031",
		144793823: "144,793,823", math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestMany(t *testing.T) {
	for n, want := range map[int64]string{0: "0 rows", 1: "1 row", 2: "2 rows", 1200: "1,200 rows"} {
		if got := Many(n, "row"); got != want {
			t.Errorf("Many(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for r, want := range map[float64]string{
		0: "0 %", 1: "100 %", 0.01: "1 %", 0.3736: "37.36 %", 0.373649: "37.36 %", 1.0 / 3: "33.33 %", 0.000083: "0.0083 %",
		0.0000001: "0.00001 %", 25: "2,500 %", -0.5: "-50 %",
	} {
		if got := Percent(r); got != want {
			t.Errorf("Percent(%v) = %q, want %q", r, got, want)
		}
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
		if got := Duration(tt.ns, tt.d); got != tt.want {
			t.Errorf("Duration(%v, %d) = %q, want %q", tt.ns, tt.d, got, tt.want)
		}
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
			v, err := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64)
			if err != nil {
				t.Fatal(err)
			}
			if off := math.Abs(v*units[unit]-ns) / ns; off > 0.5001*math.Pow10(1-digits) {
				t.Fatalf("Duration(%v, %d) = %q is off by %v", ns, digits, text, off)
			}
			if v >= 1000 && unit != "s" {
				t.Fatalf("Duration(%v, %d) = %q: the unit is too small", ns, digits, text)
			}
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 950: "950", 999.4: "999", 999.6: "1k", 30_000: "30k", 20_480: "20.5k", 999_499: "999k", 999_500: "1M", 1_500_000: "1.5M", 3e9: "3G"} {
		if got := Short(v); got != want {
			t.Errorf("Short(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestNumberRateBytes(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.00012345: "0.000123", 0.1: "0.100", 0.0999: "0.0999", 0.9999: "1.00", 1000: "1,000", 1: "1.00", 9.996: "10.0", 99.96: "100", 12345: "12,300", -1.5: "-1.50"} {
		if got := Number(v, 3); got != want {
			t.Errorf("Number(%v, 3) = %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.00", 3.4: "3.40", 99.94: "99.9", 99.95: "100", 204.3: "204", 2458123.4: "2,458,123", -3.4: "-3.40"} {
		if got := Rate(v); got != want {
			t.Errorf("Rate(%v) = %q, want %q", v, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.00 kB", 999_499: "999 kB", 999_500: "1.00 MB", 1_240_000_000: "1.24 GB", -2048: "-2.05 kB", math.MaxInt64: "9,220 PB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain – µ 漢 é": "plain – µ 漢 é", "a\x1b[2Jb": `a\x1b[2Jb`, "\u009b": `\u009b`, "\x9b": `\x9b`, "x\u202ey\u2066": `x\u202ey\u2066`, "\x7f\t\r\n": `\x7f\t\r\n`,
		"\ufffd": "\ufffd", "\U000e0041": `\U000e0041`, "\u2028": `\u2028`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("Visible(%q) = %q, want %q", text, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Visible("plain – µ 漢 é") }); n != 0 {
		t.Errorf("%v allocations for nothing", n)
	}
	in := "{\"a\\n\u009b\u202e\U000e0041\x7f\":\n1}\n"
	out := VisibleJSON([]byte(in))
	if want := `{"a\n\u009b\u202e\udb40\udc41\u007f":` + "\n1}\n"; string(out) != want {
		t.Errorf("VisibleJSON(%q) = %q, want %q", in, out, want)
	}
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
	if got := string(p.Bytes()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for given, want := range map[int]int{-1: 80, 0: 80, 79: 80, 93: 93, 200: 100} {
		if got := NewPage(given, 9).Width; got != want {
			t.Errorf("terminal of %d columns: page of %d, want %d", given, got, want)
		}
	}
	for _, s := range []string{"", "äß", "123456"} {
		if l, r := Left(s, 4), Right(s, 4); !strings.HasPrefix(l, s) || !strings.HasSuffix(r, s) || utf8.RuneCountInString(l) != max(4, Columns(s)) || Columns(r) != Columns(l) {
			t.Errorf("%q: %q and %q", s, l, r)
		}
	}
}
