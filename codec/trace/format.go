package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// field is one property of a row that some format has.
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
	sessionField // a conversation's own name, where rows do not name their parents
	delayField   // time since the turn before
	textField    // what is verbatim, from here on
	messagesField
	payloadField
	toolsField
	extraField
	fieldCount
)

// fieldSet is a set of fields, one bit each.
type fieldSet uint32

func (s fieldSet) has(f field) bool { return s&(1<<f) != 0 }

func setOf(fields ...field) fieldSet {
	var s fieldSet
	for _, f := range fields {
		s |= 1 << f
	}
	return s
}

// fieldNames is what the fields are called in a file; "" for one that it does not have.
type fieldNames [fieldCount]string

// usualNames is what fields are called in JSONL, and what --fields calls them.
func usualNames() fieldNames {
	return fieldNames{
		timestampField: "timestamp", inputField: "input_length", outputField: "output_length", idsField: "hash_ids",
		chatField: "chat_id", parentField: "parent_chat_id", typeField: "type", turnField: "turn",
		sessionField: "session_id", delayField: "delay",
		textField: "text_input", messagesField: "messages", payloadField: "payload", toolsField: "tools", extraField: "extra",
	}
}

// usual is the names of some fields as they are usually called.
func usual(fields ...field) fieldNames {
	var names fieldNames
	for _, f := range fields {
		names[f] = usualNames()[f]
	}
	return names
}

// named is the field with a name.
func (n *fieldNames) named(name []byte) field {
	for d := timestampField; d < fieldCount; d++ {
		if n[d] == string(name) && len(name) > 0 {
			return d
		}
	}
	return unknownField
}

// format describes a format to the reader and the writer. A line is a JSON object: a row, or an object that items turns
// into rows. In CSV the first line names the columns, and each other line is a row.
type format struct {
	name        string
	csv         bool
	unit        time.Duration // of timestamps; 0 = there are none, or dates
	dates       bool          // timestamps are dates, read to the ns
	surely      bool          // no file of the format has another unit
	seconds     bool          // timestamps are whole seconds: what came in one of them comes at once
	failures    bool          // a row without output is a request that failed when it was recorded
	blockTokens int           // 0 = there are no block ids
	floor       bool          // only whole blocks have ids: the tokens of a last, partial one have none
	either      bool          // the last, partial block may have an id or none
	names       fieldNames    // others are skipped unseen
	aliases     map[string]field
	required    fieldSet
	enough      []fieldSet                               // keys by any of which detection recognizes a row; nil = the required ones
	check       func(f *format, r *row) error            // what required cannot express; may be nil
	items       func(out *items, text []byte)            // where a JSON object is not one row with these names; nil = it is
	together    func(l *loader, lines []heldLine)        // reads the objects of a file together, since they name each other; nil = items does, one by one
	known       func(keys []string) bool                 // reports whether keys are those of such an object
	tree        bool                                     // each row is of an agent: linkAgents finds out who waited for whom
	whole       bool                                     // a file may be one such object over many lines, or several
	looks       func(object []byte) bool                 // tells apart objects of several formats with the same keys; nil = the keys do
	listKey     string                                   // key of the list of objects that the file is, where it is one JSON document; "" = it has an object a line, or is a list
	words       bool                                     // it has what was said instead of numbers of tokens
	cannot      func(t *Trace, i int) string             // what of a row it has no place for, so that Write refuses; may be nil, as may be what it returns
	prepare     func(t *Trace) (*Trace, []byte)          // makes a trace ready to be written, and what comes before the first row; nil = it is, and head does
	head        string                                   // what Write puts before the first row
	between     string                                   // likewise at the end of each line but the last
	tail        string                                   // likewise after the last
	appendRow   func(dst []byte, t *Trace, i int) []byte // one line without its end; nil for a format that is only read
}

func (f *format) has(d field) bool { return f.names[d] != "" }

// blocks reports whether prompts can have blocks in common, by their ids or in words.
func (f *format) blocks() bool { return f.words || f.has(idsField) }

// mostIDs is how many ids a prompt has at most.
func (f *format) mostIDs(tokens int32, blockTokens int) int {
	if f.floor {
		return int(tokens) / blockTokens
	}
	return blocksOf(tokens, blockTokens)
}

// idsFit reports whether a prompt has as many ids as it has blocks. No ids at all fit every prompt.
func (f *format) idsFit(ids int, tokens int32, blockTokens int) bool {
	return ids == 0 || ids == f.mostIDs(tokens, blockTokens) || f.either && ids == int(tokens)/blockTokens
}

// rounding says how idsFit counts blocks.
func (f *format) rounding() string {
	switch {
	case f.floor:
		return "down"
	case f.either:
		return "up or down"
	}
	return "up"
}

// bodies reports whether rows are whole bodies, and nothing else.
func (f *format) bodies() bool { return f.words && f.has(payloadField) }

// sessions reports whether rows name their conversation.
func (f *format) sessions() bool { return f.has(chatField) || f.has(sessionField) }

// checkUnit refuses a unit for dates.
func (f *format) checkUnit(unit time.Duration) error {
	if f.dates && unit != 0 {
		return fmt.Errorf("timestamps of %s are dates, which have no unit; leave --time-unit out", f.name)
	}
	return nil
}

// field is the one with a name, or with a name that other tools gave it.
func (f *format) field(name []byte) field {
	if d := f.names.named(name); d != unknownField {
		return d
	}
	return f.aliases[string(name)]
}

// fits reports whether an object with these keys is of the format.
func (f *format) fits(keys []string) bool {
	if f.items != nil {
		return f.known(keys)
	}
	enough := f.enough
	if enough == nil {
		enough = []fieldSet{f.required}
	}
	there := f.fieldsOf(keys)
	return slices.ContainsFunc(enough, func(s fieldSet) bool { return s&^there == 0 })
}

// fieldsOf is the set of fields with these names.
func (f *format) fieldsOf(names []string) fieldSet {
	var s fieldSet
	for _, n := range names {
		s |= setOf(f.field([]byte(n)))
	}
	return s &^ setOf(unknownField)
}

// list is the names of a set of fields.
func (f *format) list(s fieldSet) string {
	var names []string
	for d, n := range f.names {
		if s.has(field(d)) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// renamed is the format with other names for some fields, by their usual names.
func (f *format) renamed(names map[string]string) *format {
	if len(names) == 0 {
		return f
	}
	g, known := *f, usualNames()
	for usual, name := range names {
		if d := known.named([]byte(usual)); g.has(d) {
			g.names[d] = name
		}
	}
	return &g
}

// checkNames refuses names for fields that no format has, and one name for two.
func checkNames(names map[string]string) error {
	known := usualNames()
	taken := map[string]string{}
	for _, usual := range slices.Sorted(maps.Keys(names)) {
		name := names[usual]
		if known.named([]byte(usual)) == unknownField {
			return fmt.Errorf("unknown field %q; known are %s", usual, strings.Join(known[timestampField:], ", "))
		}
		if name == "" {
			return fmt.Errorf("field %s has no name", usual)
		}
		if other, twice := taken[name]; twice {
			return fmt.Errorf("%s is both %s and %s", name, other, usual)
		}
		taken[name] = usual
	}
	return nil
}

// formats lists every format, the most specific first: detection takes the first that fits.
func formats() []*format {
	all := []*format{agenticMooncake(), bailian(), traceLab(), copilot(), otel(), weka(), satf(), dagJSONL(), batch(), sageMaker(), inputsJSON(),
		rawPayload(), mooncake(), azure(), burstGPT(), dynamo(), multiTurn(), shareGPT(), singleTurn()}
	for _, f := range all { // what means nothing must be something
		f.unit, f.blockTokens = cmp.Or(f.unit, time.Millisecond), cmp.Or(f.blockTokens, 512)
	}
	return all
}

// Formats lists the names that [Options].Format takes.
func Formats() []string { return namesOf(formats()) }

func namesOf(list []*format) (names []string) {
	for _, f := range list {
		names = append(names, f.name)
	}
	return names
}

// Written lists the names that [Write] and [Gen] take: those of [Formats] but for formats that are only read.
func Written() []string { return namesOf(writable()) }

// writable lists every format that can be written.
func writable() []*format {
	return slices.DeleteFunc(formats(), func(f *format) bool { return f.appendRow == nil })
}

// formatToWrite is the format with a name.
func formatToWrite(name string) (*format, error) {
	f, err := formatByName(name)
	if err == nil && f.appendRow == nil {
		return nil, fmt.Errorf("%s is only read; formats to write are %s", name, strings.Join(Written(), ", "))
	}
	return f, err
}

func formatByName(name string) (*format, error) {
	for _, f := range formats() {
		if f.name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("unknown trace format %q; known are %s", name, strings.Join(Formats(), ", "))
}

// timeUnit is a unit of timestamps, and its name as --time-unit takes it.
type timeUnit struct {
	name string
	unit time.Duration
}

// timeUnits are a thousand times the one before each.
func timeUnits() []timeUnit {
	return []timeUnit{{"ns", time.Nanosecond}, {"us", time.Microsecond}, {"ms", time.Millisecond}, {"s", time.Second}}
}

// UnitName is the short name of a time unit as --time-unit takes it: ns, us, ms or s.
func UnitName(unit time.Duration) string {
	for _, u := range timeUnits() {
		if u.unit == unit {
			return u.name
		}
	}
	return unit.String()
}

// ParseUnit reads a name that [UnitName] makes; "" is 0, the format's own unit.
func ParseUnit(name string) (time.Duration, error) {
	for _, u := range timeUnits() {
		if u.name == name {
			return u.unit, nil
		}
	}
	if name == "" {
		return 0, nil
	}
	return 0, fmt.Errorf("unknown time unit %q; known are ns, us, ms, s", name)
}

// unitDigits is log10 of the unit in ns, below 0 for a duration that is no unit.
func unitDigits(unit time.Duration) int {
	return 3 * slices.IndexFunc(timeUnits(), func(u timeUnit) bool { return u.unit == unit })
}
