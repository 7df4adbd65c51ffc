package rows

import (
	"bytes"
	"math/bits"
	"strconv"
)

// Decimal is a JSON number times a power of ten as a whole number, worked out digit by digit: no float is involved.
type Decimal struct {
	abs      uint64 // rounded half away from zero
	negative bool   // below zero, even where abs rounds to 0
	exact    bool   // nothing was rounded away
	fits     bool   // abs did not overflow
}

// maxExponent bounds a written exponent. Beyond it every number is 0 or too large whatever its digits are, since a line
// has fewer digits than that ([maxLine]).
const maxExponent = 1 << 27

// ParseDecimal reads the number b, which must follow the JSON grammar, times 10^shift.
func ParseDecimal(b []byte, shift int) Decimal {
	d := Decimal{exact: true, fits: true}
	if len(b) > 0 && b[0] == '-' {
		d.negative = true
		b = b[1:]
	}
	digits, exponent := splitExponent(b)
	point := bytes.IndexByte(digits, '.') // digits before the decimal point
	if point < 0 {
		point = len(digits)
	}
	keep := point + exponent + shift // digits that belong to the whole number
	seen := 0
	up := false
	for _, c := range digits {
		if c == '.' {
			continue
		}
		switch {
		case seen < keep:
			d.push(c - '0')
		case seen == keep:
			up = c >= '5'
			fallthrough
		default:
			d.exact = d.exact && c == '0'
		}
		seen++
	}
	for ; seen < keep && d.abs != 0 && d.fits; seen++ {
		d.push(0)
	}
	if up {
		var carry uint64
		d.abs, carry = bits.Add64(d.abs, 1, 0)
		d.fits = d.fits && carry == 0
	}
	if d.abs == 0 && d.exact {
		d.negative = false // -0
	}
	return d
}

// push appends a digit.
func (d *Decimal) push(digit byte) {
	hi, lo := bits.Mul64(d.abs, 10)
	sum, carry := bits.Add64(lo, uint64(digit), 0)
	if hi != 0 || carry != 0 {
		d.fits = false
		return
	}
	d.abs = sum
}

// splitExponent cuts "12.5e3" into "12.5" and 3.
func splitExponent(b []byte) (digits []byte, exponent int) {
	at := max(bytes.IndexByte(b, 'e'), bytes.IndexByte(b, 'E'))
	if at < 0 {
		return b, 0
	}
	exponent, _ = strconv.Atoi(string(b[at+1:])) // one that is out of range becomes the largest or smallest int
	return b[:at], max(-maxExponent, min(exponent, maxExponent))
}

// AppendDecimal writes v / 10^places without trailing zeros: 61114000000 with 9 places is 61.114.
func AppendDecimal(dst []byte, v int64, places int) []byte {
	if v < 0 {
		panic("BUG: a negative instant in a trace")
	}
	unit := int64(1)
	for range places {
		unit *= 10
	}
	dst = strconv.AppendInt(dst, v/unit, 10)
	rest := v % unit
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for rest != 0 {
		unit /= 10
		dst = append(dst, byte('0'+rest/unit))
		rest %= unit
	}
	return dst
}
