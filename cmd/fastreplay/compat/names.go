package compat

import (
	_ "embed"
	"slices"
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

	takes takes
	value string   // what the table says of our flag's value; convert reads it
	words []string // the only values that it may have, sorted pairs of THEIRS=OURS; nil = no such list
	part  string   // what it says of requests that are made; "" = nothing that is known
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
	parts := map[string]string{}
	var section Name
	for line := range strings.Lines(table) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		entry, doc, _ := strings.Cut(rest, " | ")
		left, right, _ := strings.Cut(entry, " = ")
		switch kind {
		case "", "#":
		case "part":
			for name := range strings.FieldsSeq(right) {
				parts[name] = left
			}
		case "tool:":
			section = Name{Tool: rest}
		case "note:":
			section = Name{Tool: section.Tool, Note: rest}
		case "refused:":
			section = Name{Tool: section.Tool, Refused: rest}
		default:
			n := section
			n.takes = takes(kind)
			n.Doc = doc
			n.setOurs(right, known)
			for name := range strings.FieldsSeq(left) {
				n.Name, n.Short, _ = strings.Cut(name, ",")
				n.part = parts[n.Name]
				known[n.Name] = n
				all = append(all, n)
			}
		}
	}
	return all
}

// setOurs reads the flag and the value of a line.
func (n *Name) setOurs(text string, known map[string]Name) {
	n.Flag, n.value, _ = strings.Cut(text, " ")
	if like, same := strings.CutPrefix(n.value, "as "); same {
		n.value = known[like].value
		n.words = known[like].words
		n.Doc = known[like].Doc
	} else if words, listed := strings.CutPrefix(n.value, "one of "); listed {
		n.words = strings.Fields(words)
		slices.SortFunc(n.words, byTheirs)
		list := strings.ReplaceAll(strings.Join(n.words, "`, `"), "=", "` is `")
		n.Doc = strings.TrimSuffix("`"+list+"`; others are refused. "+n.Doc, ". ")
	}
}

// Ours returns our flag without dashes, for a switch with the value that it stands for: no-stream=false.
func (n *Name) Ours() string {
	if n.takes != noValue || n.value == "" {
		return n.Flag
	}
	text, err := n.convert("true")
	if err != nil {
		panic("BUG: --" + n.Name + " is no switch: " + err.Error())
	}
	return n.Flag + "=" + text
}

// byName returns the meanings that names have for `fastreplay profile`, or for all else.
func byName(profile bool) map[string]Name {
	other := "profile"
	if profile {
		other = "others"
	}
	names := map[string]Name{}
	for _, n := range Names() {
		if n.Tool != other && n.Name != n.Flag {
			names[n.Name] = n
		}
	}
	return names
}
