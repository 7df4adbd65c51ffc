package rows

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// date decodes a timestamp such as 2023-11-16 18:17:03.9799600 or 2024-05-10T00:00:00.009930+00:00. --fields alone
// takes a CSV for one of Azure, so a number may be the seconds of another format.
func (p *Reader) date(cell []byte) (err error) {
	p.row.TimeNS, err = InstantOf(p.layout.Names[TimestampField], cell)
	bad, ok := err.(*Error)
	if !ok {
		return err
	}
	_, number := strconv.ParseFloat(string(cell), 64)
	if number == nil {
		bad.fix += ", or give --format burstgpt if it is seconds"
	}
	return bad
}

// InstantOf is the ns since 1970 of a date; name is what it is called.
func InstantOf(name string, cell []byte) (int64, error) {
	at, ok := parseDate(cell)
	if !ok {
		return 0, &Error{fmt.Sprintf("%s is %s, not a date", name, Quote(cell)),
			"write it as 2023-11-16 18:17:03.9799600, with or without a zone such as +00:00"}
	}
	if at.Unix() < 0 || at.Unix() >= math.MaxInt64/int64(time.Second) {
		return 0, &Error{fmt.Sprintf("%s %s is out of range", name, Quote(cell)), "it must be from 1970 to 2262"}
	}
	return at.UnixNano(), nil
}

// parseDate reads a date as RFC 3339 writes it, or with a space for the T, or without a zone, which means UTC. Digits
// beyond the ns are cut off. It asks [time.Parse] for RFC 3339 alone, which has a fast way for that. It refuses what is
// lenient beyond it: hours of one digit, a comma before the fraction, zones of 60 minutes.
func parseDate(b []byte) (t time.Time, ok bool) {
	date := append(make([]byte, 0, 40), b...)
	n := len(date)
	if n < len("2006-01-02 15:04:05") || date[13] != ':' || n > 19 && date[19] == ',' {
		return t, false
	}
	if date[10] == ' ' {
		date[10] = 'T'
	}
	if sign := date[n-6]; sign == '+' || sign == '-' {
		ok = date[n-2] <= '5'
	} else if ok = true; date[n-1] != 'Z' {
		date = append(date, 'Z')
	}
	t, err := time.Parse(time.RFC3339, string(date))
	return t, ok && err == nil
}
