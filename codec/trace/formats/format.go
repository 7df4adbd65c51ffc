// Package formats has the formats of traces, a file each. A [Format] says how the rows of a file look. An [Importer] is
// for one whose objects are not rows, a [Writer] for one that is written too.
//
// It owns what is peculiar to a format, and knows nothing of how rows are kept, selected and judged: that is
// codec/trace. A Format holds what its importer and its writer remember of a file. So it is for one load or one file
// that is written, and for one goroutine.
package formats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// What a format is made of.
type (
	row    = rows.Row
	object = rows.Object
)

// Format is one format of traces.
type Format struct {
	Name string
	rows.Layout
	Unit         time.Duration // of timestamps
	UnitVaries   bool          // files of the format may have another unit
	WholeSeconds bool          // timestamps are whole seconds: what came in one of them comes at once
	BlockTokens  int           // that an id stands for
	LastBlock    LastBlock
	Words        bool            // it has what was said instead of numbers of tokens
	Agents       bool            // each row is of an agent, and does not say what it waited for
	ClockSkewNS  int64           // how much earlier than what it waited for a row may seem to begin
	Enough       []rows.FieldSet // fields by any of which detection recognizes a row; nil = the required ones
	Import       *Importer       // nil = objects are rows
	Write        *Writer         // nil = it is only read
}

// LastBlock is whether the last block of a prompt, if it is a partial one, has an id.
type LastBlock uint8

// The rules for the last block.
const (
	HasID LastBlock = iota
	HasNoID
	MayHaveID
)

// Importer reads a format whose objects are not rows: an object hides a row, or holds several.
type Importer struct {
	Match func(keys []string) bool // reports whether keys are those of such an object
	// tells apart objects of several formats with the same keys; nil = the keys do
	Looks     func(text []byte) bool
	Read      func(b *Batch, o object)    // makes the rows of an object
	ReadText  func(b *Batch, text []byte) // in place of Read: makes those of a line, or of an object as it stands
	End       func(b *Batch)              // makes rows after the last object of a file; nil = it has none
	Documents bool                        // a file may be one such object over many lines, or several
	// key of the list of objects in a file that is one JSON document. "": a file has an object a line, or is a list
	ListKey string
}

// Take makes the rows of a line or an object.
func (in *Importer) Take(b *Batch, text []byte) {
	if in.ReadText != nil {
		in.ReadText(b, text)
	} else if o := rows.ObjectOf(text, &b.Fault); o.OK() {
		in.Read(b, o)
	}
}

// All lists every format, the most specific first: detection takes the first that fits.
func All() []*Format {
	all := []*Format{
		own(), openAILog(), liteLLM(), langfuse(), sglangLog(), vllmLog(),
		agenticMooncake(), bailian(), traceLab(), copilot(), otel(), weka(), satf(),
		dagJSONL(), rollout(), batch(), sageMaker(), inputsJSON(), rawPayload(),
		mooncake(), azure(), burstGPT(), dynamo(), multiTurn(), shareGPT(), singleTurn(),
	}
	for _, f := range all { // what means nothing must be something
		f.Unit = cmp.Or(f.Unit, time.Millisecond)
		f.BlockTokens = cmp.Or(f.BlockTokens, 512)
	}
	return all
}

// Default is the name of the format that has a place for all that a trace can hold, but for agents.
const Default = "mooncake"

// Names lists the names of all formats.
func Names() []string { return namesOf(All()) }

// Written lists the names of the formats that can be written.
func Written() []string {
	return namesOf(slices.DeleteFunc(All(), func(f *Format) bool {
		return f.Write == nil
	}))
}

func namesOf(list []*Format) (names []string) {
	for _, f := range list {
		names = append(names, f.Name)
	}
	return names
}

// ByName returns the format with a name.
func ByName(name string) (*Format, error) {
	for _, f := range All() {
		if f.Name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("unknown trace format %q; known are %s", name, strings.Join(Names(), ", "))
}

// ToWrite returns the format with a name, which must be one that can be written.
func ToWrite(name string) (*Format, error) {
	f, err := ByName(name)
	if err == nil && f.Write == nil {
		return nil, fmt.Errorf("%s is only read; formats to write are %s", name, strings.Join(Written(), ", "))
	}
	return f, err
}

// HasBlocks reports whether prompts can have blocks in common, by their ids or in words.
func (f *Format) HasBlocks() bool {
	return f.Words || f.Has(rows.HashIDsField)
}

// MostIDs is how many ids a prompt has at most.
func (f *Format) MostIDs(tokens int32, blockTokens int) int {
	if f.LastBlock == HasNoID {
		return int(tokens) / blockTokens
	}
	return (int(tokens) + blockTokens - 1) / blockTokens
}

// IDsFit reports whether a prompt has as many ids as it has blocks. No ids at all fit every prompt.
func (f *Format) IDsFit(ids int, tokens int32, blockTokens int) bool {
	return ids == 0 || ids == f.MostIDs(tokens, blockTokens) ||
		f.LastBlock == MayHaveID && ids == int(tokens)/blockTokens
}

// Rounding says how IDsFit counts blocks.
func (f *Format) Rounding() string {
	return [...]string{
		HasID:     "up",
		HasNoID:   "down",
		MayHaveID: "up or down",
	}[f.LastBlock]
}

// Bodies reports whether rows are whole bodies, and nothing else.
func (f *Format) Bodies() bool {
	return f.Words && f.Has(rows.PayloadField)
}

// Conversations reports whether rows name their conversation.
func (f *Format) Conversations() bool {
	return f.Has(rows.ChatField) || f.Has(rows.SessionField)
}

// CheckUnit refuses a unit for dates.
func (f *Format) CheckUnit(unit time.Duration) error {
	if f.Dates && unit != 0 {
		return fmt.Errorf("timestamps of %s are dates, which have no unit; leave --time-unit out", f.Name)
	}
	return nil
}

// Fits reports whether a line with these keys is of the format.
func (f *Format) Fits(keys []string, text []byte) bool {
	if in := f.Import; in != nil {
		return in.Match(keys) && (in.Looks == nil || in.Looks(text))
	}
	enough := f.Enough
	if enough == nil {
		enough = []rows.FieldSet{f.Required}
	}
	there := f.FieldsOf(keys)
	return slices.ContainsFunc(enough, func(s rows.FieldSet) bool {
		return s&^there == 0
	})
}

// Renamed is the format with other names for some fields, by their usual names.
func (f *Format) Renamed(names map[string]string) *Format {
	if len(names) == 0 {
		return f
	}
	g := *f
	g.Layout = f.Layout.Renamed(names)
	return &g
}

// counted is a format of agents' requests with dates, of whose prompts it has only the lengths. Blocks are as long as
// in Weka's traces.
func counted(
	name string, names rows.Names, match func(keys []string) bool, read func(b *Batch, o object),
) *Format {
	return &Format{
		Name:        name,
		Layout:      rows.Layout{Names: names, Dates: true},
		BlockTokens: 64,
		LastBlock:   HasNoID,
		Agents:      true,
		Import: &Importer{
			Match: match,
			Read:  read,
		},
	}
}

// hasZero reports whether the value of one of some keys is 0.
func hasZero(o object, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		return string(o.Value(key)) == "0"
	})
}

// hasKeys makes a test of an object: it has these keys.
func hasKeys(wanted ...string) func(keys []string) bool {
	return func(keys []string) bool {
		return !slices.ContainsFunc(wanted, func(name string) bool {
			return !slices.Contains(keys, name)
		})
	}
}

// anyOf makes a test of an object that passes one of some tests.
func anyOf(tests ...func(keys []string) bool) func(keys []string) bool {
	return func(keys []string) bool {
		return slices.ContainsFunc(tests, func(fits func(keys []string) bool) bool { return fits(keys) })
	}
}

// hasAny reports whether keys have one of some names among them.
func hasAny(keys []string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(keys, name)
	})
}

// uniqueNames counts how many asked for each name.
type uniqueNames map[string]int

// pick returns a name that none before has: the one that is asked for, or that with a number behind it.
func (u uniqueNames) pick(asked string) string {
	name := asked
	for u[name] > 0 {
		u[asked]++
		name = fmt.Sprintf("%s~%d", asked, u[asked])
	}
	u[name]++
	return name
}
