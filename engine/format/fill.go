package format

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// Filler fills the gaps of texts with values. A gap is {path printer}: a path of keys, such as arrivals.span_s, and how
// the number there is printed. (The standard library's templates would add 6 MB to the program.)
type Filler struct {
	Values   map[string]any                  // as JSON has them
	Printers map[string]func(float64) string // by name; "many row" and the like need none
}

// NewFiller makes a filler of the values that v has as JSON. Callers may add values and printers.
func NewFiller(v any) (*Filler, error) {
	f := &Filler{Printers: map[string]func(float64) string{
		"bytes":   func(v float64) string { return Bytes(int64(v)) },
		"count":   func(v float64) string { return Count(int64(v)) },
		"ms":      Milliseconds,
		"percent": Percent,
		"plain": func(v float64) string {
			return strconv.FormatFloat(v, 'g', -1, 64)
		},
		"rate":  Rate,
		"share": Share,
		"short": Short,
		"some": func(v float64) string {
			return strings.TrimSpace(Some(int64(v), ""))
		},
		"span":  Span,
		"three": func(v float64) string { return Number(v, 3) },
		"whole": func(v float64) string { return Fixed(v, 0) },
	}}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return f, json.Unmarshal(text, &f.Values)
}

var gap = regexp.MustCompile(`\{[^}]*\}`)

// Fill returns a text with its gaps filled; "" if a value is not there, or is 0 and printed by some.
func (f *Filler) Fill(text string) string {
	missing := false
	text = gap.ReplaceAllStringFunc(text, func(gap string) string {
		path, printer, _ := strings.Cut(strings.Trim(gap, "{}"), " ")
		value := f.print(f.at(path), printer)
		missing = missing || value == ""
		return value
	})
	if missing {
		return ""
	}
	return text
}

// at is the value at a path of keys; nil if there is none.
func (f *Filler) at(path string) any {
	var value any = f.Values
	for key := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

func (f *Filler) print(value any, printer string) string {
	switch v := value.(type) {
	case string:
		return v
	case float64:
		if noun, is := strings.CutPrefix(printer, "many "); is {
			return Many(int64(v), noun)
		}
		return f.Printers[printer](v)
	}
	return ""
}
