package compat

import (
	_ "embed"
	"strings"
)

// table has the names; its own comment describes its lines.
//
//go:embed names.txt
var table string

// A Name is a flag of another tool, a line of the table.
type Name struct {
	Name, Short string
	Tool        string // section of the table: aiperf, replayer, vllm, others, profile or all
	Flag        string // ours that it sets; "" = none, as Note or Refused says
	Doc         string // what the manual adds
	Note        string // printed whenever the flag is given
	Refused     string // why it is refused, and what to do instead; "" = it is not

	takes   takes
	convert func(string) (string, error) // its value to ours, "" = nothing to set; nil = the same
}

// takes is what follows a flag.
type takes string

const (
	oneValue takes = "value"
	noValue  takes = "switch"
	values   takes = "values" // one or more, up to the next flag
	anyValue takes = "any"    // none, one or more
)

// Names returns the whole table.
func Names() (all []Name) {
	known := map[string]Name{}
	var tool, note, refused string
	for line := range strings.Lines(table) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "", "#", "part":
		case "tool:":
			tool = rest
			note = ""
			refused = ""
		case "note:":
			note, refused = rest, ""
		case "refused:":
			note, refused = "", rest
		default:
			rest, doc, _ := strings.Cut(rest, " | ")
			names, ours, _ := strings.Cut(rest, " = ")
			n := Name{
				Tool:    tool,
				Doc:     doc,
				Note:    note,
				Refused: refused,
				takes:   takes(kind),
			}
			n.setOurs(ours, known)
			for _, name := range strings.Fields(names) {
				n.Name, n.Short, _ = strings.Cut(name, ",")
				known[n.Name] = n
				all = append(all, n)
			}
		}
	}
	return all
}

// setOurs reads the flag and the value of a line.
func (n *Name) setOurs(text string, known map[string]Name) {
	flag, value, _ := strings.Cut(text, " ")
	n.Flag = flag
	words, listed := strings.CutPrefix(value, "one of ")
	like, same := strings.CutPrefix(value, "as ")
	switch {
	case value == "":
	case listed:
		n.convert = oneOf(words)
		n.Doc = strings.TrimSuffix(listOf(words)+". "+n.Doc, ". ")
	case same:
		n.convert, n.Doc = known[like].convert, known[like].Doc
	case strings.Contains(value, "{"):
		n.convert = inside(value)
	case conversions()[value] != nil:
		n.convert = conversions()[value]
	default:
		n.convert = when(value)
	}
}

// Ours returns our flag without dashes, for a switch with the value that it stands for: no-stream=false.
func (n *Name) Ours() string {
	if n.takes != noValue || n.convert == nil {
		return n.Flag
	}
	text, err := n.convert("true")
	if err != nil {
		panic("BUG: --" + n.Name + " is no switch: " + err.Error())
	}
	return n.Flag + "=" + text
}

// adds reports whether the value is added to what the flag has: several names may then give it different values.
func (n *Name) adds() bool {
	return n.Flag == "extra-inputs" || n.Flag == "header" || n.Flag == "goodput" || n.Flag == "fields"
}

// byName returns the meanings that names have for `fastreplay profile`, or for all else.
func byName(profile bool) map[string]Name {
	other := map[bool]string{true: "others", false: "profile"}[profile]
	names := map[string]Name{}
	for _, n := range Names() {
		if n.Tool != other && n.Name != n.Flag {
			names[n.Name] = n
		}
	}
	return names
}
