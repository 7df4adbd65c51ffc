package rows

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestParseDecimal(t *testing.T) {
	for _, c := range []struct {
		in    string
		shift int
		want  Decimal
	}{
		{"0", 9, Decimal{0, false, true, true}},
		{"61.114", 9, Decimal{61114000000, false, true, true}},
		{"61.114000000000004", 9, Decimal{61114000000, false, false, true}},
		{"61.113999999999997", 9, Decimal{61114000000, false, false, true}},
		{"0.1234567895", 9, Decimal{123456790, false, false, true}},
		{"0.1234567894999", 9, Decimal{123456789, false, false, true}},
		{"3536999", 6, Decimal{3536999000000, false, true, true}},
		{"0.000001", 6, Decimal{1, false, true, true}},
		{"0.0000005", 6, Decimal{1, false, false, true}},
		{"0.00000049", 6, Decimal{0, false, false, true}},
		{"1.5e3", 0, Decimal{1500, false, true, true}},
		{"1500e-3", 0, Decimal{2, false, false, true}},
		{"15000E-4", 1, Decimal{15, false, true, true}},
		{"-1", 0, Decimal{1, true, true, true}},
		{"-0.0", 9, Decimal{0, false, true, true}},
		{"-0.0000000001", 9, Decimal{0, true, false, true}},
		{"18446744073709551615", 0, Decimal{18446744073709551615, false, true, true}},
		{"1e-999999999999999999999", 9, Decimal{0, false, false, true}},
		{"0e999999999999999999999", 9, Decimal{0, false, true, true}},
	} {
		expect.Equal(t, ParseDecimal([]byte(c.in), c.shift), c.want, "ParseDecimal(%s, %d)", c.in, c.shift)
	}
	for _, in := range []string{"18446744073709551616", "18446744073709551615.5", "1e20", "1e999999999999999999999", "184467440737095516150"} {
		if got := ParseDecimal([]byte(in), 0); got.fits {
			t.Errorf("ParseDecimal(%s, 0) = %+v, want it not to fit", in, got)
		}
	}
}

// checkDecimal compares with exact rational arithmetic.
func checkDecimal(t *testing.T, number string, shift int) {
	t.Helper()
	exact, ok := new(big.Rat).SetString(number)
	if !ok {
		t.Fatalf("no number: %q", number)
	}
	exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(shift)), nil)))
	negative := exact.Sign() < 0
	abs := new(big.Rat).Abs(exact)
	half := new(big.Rat).Add(abs, big.NewRat(1, 2))
	rounded := new(big.Int).Quo(half.Num(), half.Denom())
	got := ParseDecimal([]byte(number), shift)
	must.Equal(t, got.fits, rounded.IsUint64(), "%s e%d: fits", number, shift)
	if got.fits && (got.abs != rounded.Uint64() || got.negative != negative || got.exact != abs.IsInt()) {
		t.Fatalf("%s e%d: got %+v, want %v negative %v exact %v", number, shift, got, rounded, negative, abs.IsInt())
	}
}

// isPlainNumber reports whether s is a JSON number whose exponent big.Rat can bear.
func isPlainNumber(s string) bool {
	if s == "" || !strings.ContainsRune("-0123456789", rune(s[0])) || !json.Valid([]byte(s)) || strings.TrimSpace(s) != s {
		return false
	}
	at := strings.IndexAny(s, "eE")
	return at < 0 || len(s)-at < 6
}

func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0", "1.5", "61.114", "9223372036854775807", "18446744073709551615.49", "1e19", "1.8446744073709551615e19", "5e-10", "0.00000000049999", "123456.7890e-3"} {
		f.Add(s, uint8(9))
	}
	f.Fuzz(func(t *testing.T, number string, shift uint8) {
		if !isPlainNumber(number) {
			t.Skip()
		}
		checkDecimal(t, number, int(shift%19))
	})
}

func TestAppendDecimal(t *testing.T) {
	for _, c := range []struct {
		ns     int64
		places int
		want   string
	}{
		{0, 9, "0"}, {61114000000, 9, "61.114"}, {1, 9, "0.000000001"}, {1, 6, "0.000001"}, {3000000000, 6, "3000"},
		{9223372036854775807, 9, "9223372036.854775807"}, {10500000, 6, "10.5"}, {1000000000, 9, "1"},
	} {
		got := string(AppendDecimal(nil, c.ns, c.places))
		expect.Equal(t, got, c.want, "AppendDecimal(%d, %d)", c.ns, c.places)
		expect.Equal(t, ParseDecimal([]byte(got), c.places), Decimal{uint64(c.ns), false, true, true}, "%s reads back as %d", got, c.ns)
	}
}
