package trace

import (
	"fmt"
	"strings"
	"time"
)

// field is one property of a row that some format knows.
type field uint8

const (
	unknownField field = iota
	timestampField
	inputField
	outputField
	idsField
	chatField
	parentField
	typeField
	turnField
)

// fieldSet is a set of fields, one bit each.
type fieldSet uint16

func (s fieldSet) has(f field) bool { return s&(1<<f) != 0 }

func setOf(fields ...field) fieldSet {
	var s fieldSet
	for _, f := range fields {
		s |= 1 << f
	}
	return s
}

// key is the field's name in a file. Bailian and Mooncake agree on the names that they share.
func (f field) key() string {
	switch f {
	case timestampField:
		return "timestamp"
	case inputField:
		return "input_length"
	case outputField:
		return "output_length"
	case idsField:
		return "hash_ids"
	case chatField:
		return "chat_id"
	case parentField:
		return "parent_chat_id"
	case typeField:
		return "type"
	case turnField:
		return "turn"
	}
	return ""
}

func fieldOf(key []byte) field {
	switch string(key) {
	case "timestamp":
		return timestampField
	case "input_length":
		return inputField
	case "output_length":
		return outputField
	case "hash_ids":
		return idsField
	case "chat_id":
		return chatField
	case "parent_chat_id":
		return parentField
	case "type":
		return typeField
	case "turn":
		return turnField
	}
	return unknownField
}

// format is what the reader and the writer must know of a JSONL format.
type format struct {
	name        string
	unit        time.Duration // of timestamps
	blockTokens int
	fields      fieldSet // known ones; others are skipped unseen
	required    fieldSet
	sessions    bool                                     // rows name their conversation
	appendRow   func(dst []byte, t *Trace, i int) []byte // one line without its end
}

// formats lists every format, the most telling first: detection takes the first that fits.
func formats() []*format { return []*format{bailian(), mooncake()} }

// Formats lists the names that [Options].Format and [Write] take.
func Formats() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

func formatByName(name string) (*format, error) {
	for _, f := range formats() {
		if f.name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("unknown trace format %q; known are %s", name, strings.Join(Formats(), ", "))
}

// UnitName is the short name of a time unit as --time-unit takes it: ns, us, ms or s.
func UnitName(unit time.Duration) string {
	switch unit {
	case time.Nanosecond:
		return "ns"
	case time.Microsecond:
		return "us"
	case time.Millisecond:
		return "ms"
	case time.Second:
		return "s"
	}
	return unit.String()
}

// ParseUnit reads a name that [UnitName] makes; "" is 0, the format's own unit.
func ParseUnit(name string) (time.Duration, error) {
	if name == "" {
		return 0, nil
	}
	for _, u := range []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second} {
		if UnitName(u) == name {
			return u, nil
		}
	}
	return 0, fmt.Errorf("unknown time unit %q; known are ns, us, ms, s", name)
}

// unitDigits is log10 of the unit in ns, or -1 for a duration that is no unit.
func unitDigits(unit time.Duration) int {
	switch unit {
	case time.Nanosecond:
		return 0
	case time.Microsecond:
		return 3
	case time.Millisecond:
		return 6
	case time.Second:
		return 9
	}
	return -1
}
