package trace

import (
	"regexp"
	"testing"
	"time"
)

// oracleDate reads a date with time.Parse, which is more lenient about hours of one digit and the like.
func oracleDate(text string) (time.Time, bool) {
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:[0-5]\d)?$`).MatchString(text) {
		return time.Time{}, false
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func dateSeeds() []string {
	return []string{
		"2023-11-16 18:17:03.9799600", "2024-05-10 00:00:00.009930+00:00", "2024-02-29T23:59:59Z", "2023-02-29 00:00:00", "2023-13-01 00:00:00",
		"2023-00-10 00:00:00", "2023-01-00 00:00:00", "2023-01-01 24:00:00", "2023-01-01 00:60:00", "2023-01-01 00:00:60", "2023-01-01 00:00:00.",
		"2023-01-01 00:00:00.123456789999", "2023-01-01 00:00:00-23:59", "2023-01-01 00:00:00+24:00", "2023-01-01 00:00:00+25:00", "2023-01-01 00:00:00+00:60",
		"2023-01-01 00:00:00+0000", "2023-01-01", "", "2023-1-01 00:00:00", "2023-01-01  0:00:00", "0000-01-01 00:00:00", "2023-01-01 00:00:d0",
		"9999-12-31 23:59:59.999999999-24:00",
	}
}

func checkDate(t *testing.T, text string) {
	t.Helper()
	got, ok := parseDate([]byte(text))
	want, wanted := oracleDate(text)
	if ok != wanted || ok && !got.Equal(want) {
		t.Errorf("%q: %v, %v; time.Parse says %v, %v", text, got, ok, want, wanted)
	}
}

func TestDates(t *testing.T) {
	for _, text := range dateSeeds() {
		checkDate(t, text)
		for i := range len(text) {
			for _, c := range "0359:-+.ZT " {
				checkDate(t, text[:i]+string(c)+text[i+1:])
			}
		}
	}
}

func FuzzDate(f *testing.F) {
	for _, text := range dateSeeds() {
		f.Add(text)
	}
	f.Fuzz(checkDate)
}
