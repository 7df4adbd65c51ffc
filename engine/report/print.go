package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// PrintOptions is how a summary is printed. The zero value is 80 columns without colour.
type PrintOptions struct {
	Width  int            // columns of the terminal; 0 = 80
	Height int            // lines of the terminal; 0 = unknown
	Colour bool           // ANSI colours
	Dir    string         // where the results are; "" prints no such line
	Page   string         // where the HTML page is; "" = there is none
	Quiet  bool           // Screen has only the verdict, objectives and where the results are
	Steps  []metrics.Step // the run by time, of all targets; nil = unknown
	whole  bool           // everything stands above the screen
}

// paint puts an ANSI style around text, if there is colour.
func (o *PrintOptions) paint(style, text string) string {
	if !o.Colour || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// shorten returns s with its middle left out where it is longer than n.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	tail := (n - 1) / 2
	return string(r[:n-1-tail]) + "…" + string(r[len(r)-tail:])
}

// part is what stands below one key of summary.json, as people read it. Names are the keys, those of inner objects
// with points between. What is null, empty or absent there is left out.
type part struct {
	path   string // "" = the file itself
	fields [][2]string
	texts  []string
	head   []string // of the table: its columns; the first names a row
	rows   [][]string
}

// member is a key with its value: nil, bool, string, json.Number, []any, or []member in the order of the file.
type member struct {
	key   string
	value any
}

// partsOf has everything of a summary: first what stands at its top, then a part for each object. Lists are parts of
// their own.
func partsOf(s *metrics.Summary) (all []*part, err error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	top := &part{}
	all = append(all, top)
	for _, m := range ordered(d).([]member) {
		p := top
		members := []member{m}
		if object, is := m.value.([]member); is && !isDistribution(object) {
			p = &part{path: m.key}
			members = object
			all = append(all, p)
		}
		all = append(all, p.add("", members)...)
	}
	return slices.DeleteFunc(all, func(p *part) bool {
		return len(p.fields)+len(p.texts)+len(p.rows) == 0
	}), nil
}

// ordered reads a value that json.Marshal wrote.
func ordered(d *json.Decoder) any {
	t, _ := d.Token()
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, ordered(d))
		}
		_, _ = d.Token()
		return list
	case json.Delim('{'):
		object := []member{}
		for d.More() {
			key, _ := d.Token()
			object = append(object, member{
				key:   key.(string),
				value: ordered(d),
			})
		}
		_, _ = d.Token()
		return object
	}
	return t
}

func isDistribution(v []member) bool {
	return len(v) > 0 && v[0].key == "p50"
}

// add adds an object's members to p, and returns its lists, as parts of their own.
func (p *part) add(prefix string, object []member) (lists []*part) {
	for _, m := range object {
		key := prefix + m.key
		switch v := m.value.(type) {
		case []any:
			lists = append(lists, listOf(strings.TrimPrefix(p.path+"."+key, "."), v))
		case []member:
			if !isDistribution(v) {
				lists = append(lists, p.add(key+".", v)...)
				continue
			}
			p.head = []string{"distribution"}
			row := []string{key}
			for _, m := range v {
				if m.key != "from_histogram" { // which is so for ITL
					p.head = append(p.head, m.key)
					row = append(row, shown("", m.value))
				}
			}
			p.rows = append(p.rows, row)
		default:
			text := shown(key, v)
			if text != "" {
				p.fields = append(p.fields, [2]string{key, text})
			}
		}
	}
	return lists
}

// listOf makes a table of objects, and texts of all else.
func listOf(path string, list []any) *part {
	p := &part{path: path}
	for _, v := range list {
		if object, is := v.([]member); is {
			p.rows = append(p.rows, p.cells(nil, "", object))
		} else {
			p.texts = append(p.texts, shown(path, v))
		}
	}
	for i, row := range p.rows {
		missing := len(p.head) - len(row)
		p.rows[i] = append(row, make([]string, missing)...)
	}
	for c := len(p.head) - 1; c > 0; c-- {
		p.dropColumn(c)
	}
	return p
}

// dropColumn removes a column that says the same of all rows. If that is more than 0 or no, it becomes a field.
func (p *part) dropColumn(c int) {
	same := p.rows[0][c]
	if slices.ContainsFunc(p.rows, func(row []string) bool {
		return row[c] != same
	}) {
		return
	}
	if same != "" {
		if len(p.rows) == 1 || same != "0" && same != "no" {
			return
		}
		p.fields = slices.Insert(p.fields, 0, [2]string{p.head[c], same})
	}
	p.head = slices.Delete(p.head, c, c+1)
	for i, row := range p.rows {
		p.rows[i] = slices.Delete(row, c, c+1)
	}
}

// cells writes an object into a row; of a distribution its median and its p99.
func (p *part) cells(row []string, prefix string, object []member) []string {
	for _, m := range object {
		key := prefix + m.key
		if inner, is := m.value.([]member); is {
			if isDistribution(inner) {
				inner = slices.DeleteFunc(inner, func(m member) bool {
					return m.key != "p50" && m.key != "p99"
				})
			}
			row = p.cells(row, key+".", inner)
			continue
		}
		c := slices.Index(p.head, key)
		if c < 0 {
			c = len(p.head)
			p.head = append(p.head, key)
		}
		missing := max(0, c+1-len(row))
		row = append(row, make([]string, missing)...)
		row[c] = shown(m.key, m.value)
	}
	return row
}

// shown prints a value. Its key has its unit, so that only what people read better otherwise has another: shares,
// bytes and nanoseconds.
func shown(key string, value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case json.Number:
		f, _ := v.Float64()
		n, err := v.Int64()
		switch {
		case isShare(key):
			return format.Percent(f)
		case strings.HasSuffix(key, "_bytes"):
			return format.Bytes(int64(f))
		case strings.HasSuffix(key, "_ns"):
			return format.Duration(f, 4)
		case err == nil:
			return format.Count(n)
		case f >= 1000:
			return format.Fixed(f, 0)
		}
		return format.Number(f, 4)
	case []any: // the ends of an interval
		var all []string
		for _, each := range v {
			all = append(all, shown(key, each))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return fmt.Sprint(value)
}

// isShare reports whether one of the words of a key says so.
func isShare(key string) bool {
	words := strings.FieldsFunc(key, func(r rune) bool {
		return r == '_' || r == '.'
	})
	return slices.ContainsFunc(words, func(word string) bool {
		return word == "ratio" || word == "share" || word == "shares"
	})
}

const (
	maxRows   = 32 // of a table or a list; the summary has them all
	cellWidth = 26 // three fields beside each other fit into 80 columns
	maxName   = 30
	longText  = 40 // in a table
)

// Print writes everything that a summary has, and then the one screen. Lines are at most 100 columns, and fit into 80.
func Print(w io.Writer, s *metrics.Summary, o PrintOptions) error {
	parts, err := partsOf(s)
	if err != nil {
		return err
	}
	p := format.NewPage(o.Width, 0)
	for _, part := range parts {
		if part.path != "" {
			p.Painted(o.paint(bold, format.Visible(part.path)))
		}
		part.print(&p)
		p.Line("")
	}
	_, err = w.Write(p.Bytes())
	if err != nil {
		return err
	}
	o.whole = true
	return Screen(w, s, o)
}

func (t *part) print(p *format.Page) {
	rows := t.rows[:min(maxRows, len(t.rows))]
	texts := t.texts[:min(maxRows, len(t.texts))]
	if len(rows) == 1 && len(t.fields) == 0 {
		for c, cell := range rows[0] {
			if cell != "" {
				t.fields = append(t.fields, [2]string{t.head[c], cell})
			}
		}
		rows = nil
	}
	t.printFields(p)
	words := slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(text, " ")
	})
	if words && !isShare(t.path) {
		for _, text := range texts {
			sentence(p, "  - ", text)
		}
	} else {
		sentence(p, "  ", strings.Join(texts, " "))
	}
	if len(rows) > 0 {
		Table(p, t.head, rows)
	}
	more := max(len(t.rows), len(t.texts)) - maxRows
	if more > 0 {
		p.Line(fmt.Sprintf("  … and %d more in %s", more, SummaryName))
	}
}

// printFields prints fields beside each other, then those that are longer than a line, and at last those that are 0.
func (t *part) printFields(p *format.Page) {
	var fields, long []string
	same := map[string][]string{} // keys by values that many have
	for _, f := range t.fields {
		key := f[0]
		value := f[1]
		text := key + " " + format.Visible(value)
		columns := format.Columns(text)
		switch {
		case value == "0" || value == "no":
			same[value] = append(same[value], key)
		case columns > p.Width-2:
			long = append(long, text)
		default:
			cells := columns/cellWidth + 1
			fields = append(fields, format.Left(text, cells*cellWidth-1))
		}
	}
	p.Wrap("  ", "  ", " ", fields)
	for _, text := range long {
		sentence(p, "  ", text)
	}
	sentence(p, "  0: ", strings.Join(same["0"], ", "))
	sentence(p, "  no: ", strings.Join(same["no"], ", "))
}

// sentence is Page.Sentence for text from outside, the words of which may be longer than a line.
func sentence(p *format.Page, mark, text string) {
	words := strings.Fields(format.Visible(text))
	indent := format.Columns(mark)
	for i, word := range words {
		words[i] = shorten(word, p.Width-indent)
	}
	p.Wrap(mark, strings.Repeat(" ", indent), " ", words)
}

// Table prints rows below their head: as many columns beside each other as fit, the others below. Rows with long
// texts are sentences.
func Table(p *format.Page, head []string, rows [][]string) {
	width := make([]int, len(head))
	lines := append([][]string{head}, rows...)
	for _, row := range lines {
		for c, cell := range row {
			columns := format.Columns(format.Visible(cell))
			width[c] = max(width[c], columns)
		}
	}
	long := len(width) > 1 && slices.Max(width[1:]) > longText
	if long {
		asSentences(p, head, rows)
		return
	}
	width[0] = min(width[0], maxName)
	from := 1
	for from <= max(1, len(head)-1) {
		to := from
		used := 2 + width[0]
		for to < len(head) && (to == from || used+2+width[to] <= p.Width) {
			used += 2 + width[to]
			to++
		}
		for _, row := range lines {
			line := "  " + format.Left(shorten(format.Visible(row[0]), width[0]), width[0])
			for c := from; c < to; c++ {
				line += "  " + format.Right(format.Visible(row[c]), width[c])
			}
			p.Line(line)
		}
		from = max(to, from+1)
	}
}

// asSentences prints each row as a list of its cells.
func asSentences(p *format.Page, head []string, rows [][]string) {
	for _, row := range rows {
		var words []string
		for c, cell := range row {
			if cell != "" {
				words = append(words, head[c]+" "+cell)
			}
		}
		sentence(p, "  - ", strings.Join(words, ", "))
	}
}
