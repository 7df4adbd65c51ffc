package trace

import (
	"fmt"
	"math"
	"time"
)

// date decodes a timestamp such as 2023-11-16 18:17:03.9799600 or 2024-05-10T00:00:00.009930+00:00.
func (p *rowParser) date(cell []byte) error {
	at, ok := parseDate(cell)
	if !ok {
		return &rowError{fmt.Sprintf("%s is %s, not a date", p.format.names[timestampField], quote(cell)),
			"write it as 2023-11-16 18:17:03.9799600, with or without a zone such as +00:00"}
	}
	if at.Unix() < 0 || at.Unix() >= math.MaxInt64/int64(time.Second) {
		return &rowError{fmt.Sprintf("%s %s is out of range", p.format.names[timestampField], quote(cell)), "it must be from 1970 to 2262"}
	}
	p.row.timeNS = at.UnixNano()
	return nil
}

// parseDate reads a date as RFC 3339 writes it, or with a space for the T, or without a zone, which means UTC. Digits beyond
// the ns are cut off. Unlike [time.Parse] it allocates nothing.
func parseDate(b []byte) (time.Time, bool) {
	const form = "0000-00-00 00:00:00"
	if len(b) < len(form) {
		return time.Time{}, false
	}
	var part [6]int // year to second
	at := 0
	for i, c := range []byte(form) {
		switch {
		case c == '0' && isDigit(b[i]):
			part[at] = part[at]*10 + int(b[i]-'0')
		case c != '0' && (c == b[i] || c == ' ' && b[i] == 'T'):
			at++
		default:
			return time.Time{}, false
		}
	}
	b = b[len(form):]
	ns := 0
	if len(b) > 1 && b[0] == '.' && isDigit(b[1]) {
		b = b[1:]
		for unit := int(time.Second) / 10; len(b) > 0 && isDigit(b[0]); unit /= 10 {
			ns += int(b[0]-'0') * unit
			b = b[1:]
		}
	}
	zone, ok := parseZone(b)
	t := time.Date(part[0], time.Month(part[1]), part[2], part[3], part[4], part[5], ns, time.UTC)
	ok = ok && int(t.Month()) == part[1] && t.Day() == part[2] && part[3] < 24 && part[4] < 60 && part[5] < 60
	return t.Add(-zone), ok
}

// parseZone reads how far east of UTC a zone lies: +01:00, Z or nothing.
func parseZone(b []byte) (time.Duration, bool) {
	if len(b) == 0 || string(b) == "Z" {
		return 0, true
	}
	if len(b) != len("+01:00") || b[0] != '+' && b[0] != '-' || b[3] != ':' || !isDigit(b[1]) || !isDigit(b[2]) || !isDigit(b[4]) || !isDigit(b[5]) {
		return 0, false
	}
	hours, minutes := int(b[1]-'0')*10+int(b[2]-'0'), int(b[4]-'0')*10+int(b[5]-'0')
	east := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if b[0] == '-' {
		east = -east
	}
	return east, hours <= 24 && minutes < 60
}

func isDigit(c byte) bool { return c-'0' <= 9 }
