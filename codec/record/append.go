package record

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Kind is what a key of a line holds.
type Kind uint8

// The kinds of values.
const (
	Integer      Kind = iota
	Milliseconds      // of a number of ns
	Date              // of a number of µs since 1970, UTC
	Text
)

// Key is one of requests.jsonl.
type Key struct {
	Name     string
	Kind     Kind
	optional bool                // left out where it has no value
	choices  bool                // only of an answer with several choices
	plain    bool                // the number of a field, whatever else the record has
	bounded  bool                // an Integer that is no hash
	offset   uintptr             // of the field in a Record; reflect.Value would take twice the time of a line
	derived  func(*Record) int64 // in place of a field: what follows from others; nil of a field
	lead     [leadBytes]byte     // ,"name":null
	before   int                 // bytes of it before a value
	absent   int                 // bytes of it that stand for no value
}

// leadBytes is as much as any key takes with null behind it. To copy a fixed number of bytes takes two instructions,
// and a call otherwise.
const leadBytes = 32

// keys are immutable.
var keys = Keys()

// Keys returns the keys of a line, in its order.
func Keys() (all []Key) {
	of := reflect.TypeFor[Record]()
	for i := range of.NumField() {
		name, options, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		k := Key{
			Name:     name,
			Kind:     Text,
			optional: options != "",
			choices:  name == "choices" || name == "decode_ns",
			offset:   of.Field(i).Offset,
		}
		switch of.Field(i).Type {
		case reflect.TypeFor[int64]():
			k.Kind = Integer
			k.bounded = name != "session" && name != "job"
		case reflect.TypeFor[Wall]():
			k.Kind = Date
		}
		all = append(all, k)
		switch name {
		case "sent_at":
			all = append(all, Key{Name: "drift_ns", derived: (*Record).DriftNS})
		case "upstream_ns":
			all = append(all, Key{
				Name:    "ttft_ms",
				Kind:    Milliseconds,
				derived: (*Record).TTFTNS,
			},
				Key{Name: "ttfo_ms", Kind: Milliseconds, derived: (*Record).TTFONS},
				Key{
					Name:    "tpot_ms",
					Kind:    Milliseconds,
					derived: (*Record).TPOTNS,
				}, Key{
					Name:    "e2e_ms",
					Kind:    Milliseconds,
					derived: (*Record).E2ENS,
				})
		}
	}
	for i := range all {
		all[i].plain = all[i].Kind != Text && !all[i].choices && all[i].derived == nil
		lead := `,"` + all[i].Name + `":`
		all[i].before = len(lead)
		copied := copy(all[i].lead[:], lead+"null")
		if !all[i].optional {
			all[i].absent = copied
		}
	}
	return all
}

// Value is what r has for the key: a text, or a number in the unit of its kind. It is "" and None if r has neither.
func (k *Key) Value(r *Record) (number int64, text string) {
	if k.plain {
		return *(*int64)(unsafe.Add(unsafe.Pointer(r), k.offset)), ""
	}
	return k.other(r)
}

// other is Value of a key that is not simply the number of a field.
func (k *Key) other(r *Record) (number int64, text string) {
	switch {
	case k.derived != nil:
		return k.derived(r), ""
	case k.offset == unsafe.Offsetof(r.Outcome):
		return None, r.Outcome.String()
	case k.Kind == Text:
		return None, *(*string)(unsafe.Add(unsafe.Pointer(r), k.offset))
	case r.Choices <= 1:
		return None, ""
	}
	return *(*int64)(unsafe.Add(unsafe.Pointer(r), k.offset)), ""
}

// AppendJSON appends the record as one line of JSON, newline included, and returns the extended slice. Keys and their
// order are fixed; durations in ms carry six decimals, so they are exact to the nanosecond. It allocates only when dst
// is too small, and keeps nothing of dst.
func (r *Record) AppendJSON(dst []byte) []byte {
	first := len(dst)
	for i := range keys {
		k := &keys[i]
		n, text := k.Value(r)
		dst = slices.Grow(dst, leadBytes)
		end := len(dst)
		*(*[leadBytes]byte)(dst[end : end+leadBytes]) = k.lead
		if n == None && text == "" {
			dst = dst[:end+k.absent]
			continue
		}
		dst = dst[:end+k.before]
		switch k.Kind {
		case Text:
			dst = appendString(dst, text)
		case Integer:
			dst = strconv.AppendInt(dst, n, 10)
		case Milliseconds:
			dst = appendMS(dst, n)
		case Date:
			dst = appendDate(dst, n)
		}
	}
	dst[first] = '{' // in place of the comma
	return append(dst, '}', '\n')
}

// appendMS appends ns as milliseconds with six decimals, by integers only.
func appendMS(dst []byte, ns int64) []byte {
	u := uint64(ns)
	if ns < 0 {
		dst = append(dst, '-')
		u = -u
	}
	return appendSix(strconv.AppendUint(dst, u/1e6, 10), u%1e6)
}

// appendSix appends a fraction of six decimals.
func appendSix(dst []byte, fraction uint64) []byte {
	dst = append(dst, ".000000"...)
	for at := len(dst) - 1; fraction > 0; at-- {
		dst[at] += byte(fraction % 10)
		fraction /= 10
	}
	return dst
}

// appendDate appends µs since 1970 as a date. The standard library takes a third of the time for RFC 3339 that it takes
// for another layout, but leaves zeros out behind the point.
func appendDate(dst []byte, us int64) []byte {
	t := time.UnixMicro(us).UTC()
	dst = t.AppendFormat(append(dst, '"'), time.RFC3339)
	return append(appendSix(dst[:len(dst)-len("Z")], uint64(t.Nanosecond()/1e3)), `Z"`...)
}

// appendString appends s quoted. Bytes that are not UTF-8 become U+FFFD, as in encoding/json.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			dst = appendEscape(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		c, size := utf8.DecodeRuneInString(s[i:])
		if c == utf8.RuneError && size == 1 {
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + 1
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

// appendEscape appends the JSON escape of one ASCII byte.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	if at := strings.IndexByte("\"\\\n\r\t", c); at >= 0 {
		return append(dst, '\\', `"\nrt`[at])
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
