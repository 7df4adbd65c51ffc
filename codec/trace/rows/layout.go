package rows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Field is one property of a row that some format has.
type Field uint8

// The fields.
const (
	UnknownField Field = iota
	TimestampField
	InputField
	OutputField
	HashIDsField
	ChatField
	ParentField
	TypeField
	TurnField
	SessionField // a conversation's own name, where rows do not name their parents
	DelayField   // time since the turn before
	TenantField  // whose request it is, and how it is to be served
	ModelField
	ClassField
	PriorityField
	HeadersField
	TextField // what is verbatim, from here on
	MessagesField
	PayloadField
	ToolsField
	ExtraField
	fieldCount
)

// FieldSet is a set of fields, one bit each.
type FieldSet uint32

// Has reports whether the field is in the set.
func (s FieldSet) Has(f Field) bool { return s&(1<<f) != 0 }

// SetOf is the set of some fields.
func SetOf(fields ...Field) FieldSet {
	var s FieldSet
	for _, f := range fields {
		s |= 1 << f
	}
	return s
}

// Names is what the fields are called in a file; "" for one that it does not have.
type Names [fieldCount]string

// UsualNames is what fields are called in JSONL, and what --fields calls them.
func UsualNames() Names {
	return Names{
		TimestampField: "timestamp",
		InputField:     "input_length",
		OutputField:    "output_length",
		HashIDsField:   "hash_ids",
		ChatField:      "chat_id",
		ParentField:    "parent_chat_id",
		TypeField:      "type",
		TurnField:      "turn",
		SessionField:   "session_id",
		DelayField:     "delay",
		TenantField:    "tenant",
		ModelField:     "model",
		ClassField:     "class",
		PriorityField:  "priority",
		HeadersField:   "headers",
		TextField:      "text_input",
		MessagesField:  "messages",
		PayloadField:   "payload",
		ToolsField:     "tools",
		ExtraField:     "extra",
	}
}

// Usual is the names of some fields as they are usually called.
func Usual(fields ...Field) Names {
	var names Names
	for _, f := range fields {
		names[f] = UsualNames()[f]
	}
	return names
}

// named is the field with a name.
func (n *Names) named(name []byte) Field {
	for f := TimestampField; f < fieldCount; f++ {
		if n[f] == string(name) && len(name) > 0 {
			return f
		}
	}
	return UnknownField
}

// CheckNames refuses other names for fields, by their usual ones, if no format has such a field or if one name is of
// two.
func CheckNames(names map[string]string) error {
	known := UsualNames()
	taken := map[string]string{}
	for _, usual := range slices.Sorted(maps.Keys(names)) {
		name := names[usual]
		if known.named([]byte(usual)) == UnknownField {
			return fmt.Errorf("unknown field %q; known are %s", usual, strings.Join(known[TimestampField:], ", "))
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

// Layout is how the rows of a format are written. A row is a line with a JSON object. In CSV the first line names the
// columns, and each other line is a row.
type Layout struct {
	Names    Names            // other keys are skipped unseen
	Aliases  map[string]Field // names that other tools gave to fields
	Required FieldSet         // what every row must have
	CSV      bool
	Dates    bool                          // timestamps of CSV are dates, read to the ns
	Failures bool                          // in CSV a row without output is a request that failed when it was recorded
	Check    func(l *Layout, r *Row) error // what Required cannot express; nil = nothing
}

// Has reports whether rows can have the field.
func (l *Layout) Has(f Field) bool { return l.Names[f] != "" }

// Field is the one with a name, or with a name that other tools gave it.
func (l *Layout) Field(name []byte) Field {
	if f := l.Names.named(name); f != UnknownField {
		return f
	}
	return l.Aliases[string(name)]
}

// FieldsOf is the set of fields with these names.
func (l *Layout) FieldsOf(names []string) FieldSet {
	var s FieldSet
	for _, n := range names {
		s |= SetOf(l.Field([]byte(n)))
	}
	return s &^ SetOf(UnknownField)
}

// List is the names of a set of fields.
func (l *Layout) List(s FieldSet) string {
	var names []string
	for f, n := range l.Names {
		if s.Has(Field(f)) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// Renamed is the layout with other names for the fields that it has, by their usual names. Any format may have fields
// of an Owner.
func (l Layout) Renamed(names map[string]string) Layout {
	known := UsualNames()
	for usual, name := range names {
		f := known.named([]byte(usual))
		if l.Has(f) || f.ofOwner() {
			l.Names[f] = name
		}
	}
	return l
}
