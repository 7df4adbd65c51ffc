package chart

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
)

// Document is an HTML page: findings, facts, graphs and tables. It is one file that refers to no other. The page has
// these structs as JSON, and a script of ours (page.js) makes elements and graphs of them. So no text of a trace or of
// a server is ever read as HTML. Numbers in tables are text, formatted as on the terminal.
type Document struct {
	Title    string    `json:"title"`
	Under    []string  `json:"under,omitempty"` // short texts below the title
	Sections []Section `json:"sections"`
}

// Add adds those of the sections that have something.
func (d *Document) Add(sections ...Section) {
	for _, s := range sections {
		s.Tables = withRows(s.Tables)
		if len(s.Findings)+len(s.Tiles)+len(s.Facts)+len(s.Graphs)+len(s.Tables) > 0 {
			d.Sections = append(d.Sections, s)
		}
	}
}

// withRows are the tables that have rows: others have nothing to say, and their rows would be null in the page's data.
func withRows(tables []Table) []Table {
	return slices.DeleteFunc(tables, func(t Table) bool { return len(t.Rows) == 0 })
}

// Section is a part of a page. Its graphs stand before its tables.
type Section struct {
	Title    string      `json:"title,omitempty"` // "" has no heading and no entry in the table of contents
	Note     string      `json:"note,omitempty"`
	Folded   bool        `json:"folded,omitempty"` // shown on a click
	Findings []Finding   `json:"findings,omitempty"`
	Tiles    []Tile      `json:"tiles,omitempty"`
	Facts    [][2]string `json:"facts,omitempty"` // names and values
	Graphs   []Graph     `json:"graphs,omitempty"`
	Tables   []Table     `json:"tables,omitempty"`
}

// Tile is a number in large print.
type Tile struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Under string `json:"under,omitempty"` // in small print
	Grade string `json:"grade,omitempty"`
	Spark Values `json:"spark,omitempty"` // the number over time, drawn without axes
}

// Finding is a judgement, and the sentences about it.
type Finding struct {
	Grade string   `json:"grade"` // its colour: Good, Warn, Bad or "" (none)
	Word  string   `json:"word,omitempty"`
	Lines []string `json:"lines,omitempty"`
}

// The grades of findings, and the marks of cells.
const (
	Good  = "good"
	Warn  = "warn"
	Bad   = "bad"
	Quiet = "quiet" // of cells alone
)

// Table has a head, and rows of as many cells. The first column and those of words are to the left, numbers to the
// right.
type Table struct {
	Title string   `json:"title,omitempty"`
	Note  string   `json:"note,omitempty"`
	Head  []string `json:"head"`
	Rows  [][]Cell `json:"rows"`
}

// Cell is a place of a table.
type Cell struct {
	Text string  `json:"t,omitempty"`
	Mark string  `json:"m,omitempty"` // a grade
	Hint string  `json:"h,omitempty"` // shown when somebody points at it
	Bar  []Piece `json:"b,omitempty"` // drawn in place of the text
}

// Piece is a part of a bar or of a lane. Its colour is that of its kind's place in Kinds.
type Piece struct {
	From float64 `json:"f"`
	To   float64 `json:"t"`
	Kind int     `json:"k"`
	Text string  `json:"h,omitempty"` // shown when somebody points at it
	Name string  `json:"n,omitempty"` // of a span: what stands on the graph; "" = Text
}

// Graph is a picture. It has Series; or Rows with Heat, which are coloured by value; or Rows with Lanes, which have
// pieces. Hovering reads values, a drag zooms, a double click resets. Graphs whose Sync is the same do so together.
type Graph struct {
	Title   string    `json:"title"`
	Note    string    `json:"note,omitempty"`
	Wide    bool      `json:"wide,omitempty"` // takes the page's whole width
	Sync    string    `json:"sync,omitempty"`
	X       Axis      `json:"x"`
	Y       Axis      `json:"y"`
	At      Values    `json:"at,omitempty"` // places on the X axis, which grow or stay
	Series  []Series  `json:"series,omitempty"`
	Stacked bool      `json:"stacked,omitempty"` // bars stand on those of the series behind
	Spans   []Piece   `json:"spans,omitempty"`   // parts of the X axis: red, of kind 1 grey, of kind 2 a line
	Rows    []string  `json:"rows,omitempty"`
	Heat    []Values  `json:"heat,omitempty"`    // of each row
	Lanes   [][]Piece `json:"lanes,omitempty"`   // of each row
	Kinds   []string  `json:"kinds,omitempty"`   // of pieces
	Colours []string  `json:"colours,omitempty"` // of the kinds, as page.css names them; none = those of phases
}

// Axis is what a graph's values are. Without From and To it fits the values.
type Axis struct {
	Label string   `json:"label,omitempty"`
	Unit  string   `json:"unit,omitempty"`  // s, ms, ratio or "" (a number)
	Log   bool     `json:"log,omitempty"`   // values of 0 and less are left out
	Whole bool     `json:"whole,omitempty"` // only whole numbers stand beside it
	From  *float64 `json:"from,omitempty"`
	To    *float64 `json:"to,omitempty"`
	Step  float64  `json:"step,omitempty"` // the width of what each place stands for, to be shown; 0 = a point
}

// Series is a line or the like. It has a value for each place.
type Series struct {
	Name   string `json:"name"`
	Style  string `json:"style,omitempty"` // one of the styles below; "" is a line
	Share  bool   `json:"share,omitempty"` // a ratio, on an axis of its own at the right
	Bad    bool   `json:"bad,omitempty"`   // in the colour of failures
	Gaps   bool   `json:"gaps,omitempty"`  // a line ends where a value is missing
	Values Values `json:"values"`

	Low   Values   `json:"low,omitempty"`   // the ends of an interval at each place
	High  Values   `json:"high,omitempty"`  // the others
	Names []string `json:"names,omitempty"` // what stands beside each point
}

// The styles of a series.
const (
	Bars   = "bars"
	Dots   = "dots"
	Points = "points" // a line with a point at each place
	Dashed = "dashed" // a line that is no measurement, such as a limit
	Behind = "behind" // a broad pale line, which is seen below another
)

// Values are numbers; NaN is none. The page has six significant digits of them.
type Values []float64

// MarshalJSON writes null for what is no finite number.
func (v Values) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 8*len(v)+2)
	out = append(out, '[')
	for i, x := range v {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			out = append(out, "null"...)
			continue
		}
		short := strconv.AppendFloat(nil, x, 'g', 6, 64)
		out = append(out, bytes.Replace(short, []byte("e+0"), []byte("e"), 1)...)
	}
	return append(out, ']'), nil
}

// Add adds rows of cells that are text alone.
func (t *Table) Add(rows [][]string) {
	for _, row := range rows {
		t.Rows = append(t.Rows, Texts(row...))
	}
}

// Texts is a row of cells that are text alone.
func Texts(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	return cells
}

// The page's script and style, and those of uPlot 1.6.32 (https://github.com/leeoniya/uPlot), which draws lines, bars
// and axes.
var (
	//go:embed page.js
	pageScript string
	//go:embed page.css
	pageStyle string
	//go:embed uplot/uPlot.iife.min.js
	plotScript string
	//go:embed uplot/uPlot.min.css
	plotStyle string
	//go:embed uplot/LICENSE
	plotLicence string
)

// Write writes the page. A browser is forbidden to load anything, and to run a script other than the two in the page.
func (d *Document) Write(w io.Writer) error {
	for i := range d.Sections {
		d.Sections[i].Tables = withRows(d.Sections[i].Tables)
	}
	data, err := json.Marshal(d) // < > & and U+2028 are escaped, so nothing ends the script element
	if err != nil {
		return err
	}
	style := plotStyle + "\n" + pageStyle
	plot := "/* uPlot 1.6.32\n" + plotLicence + "*/\n" + plotScript
	policy := fmt.Sprintf(
		"default-src 'none'; style-src %s; script-src %s %s",
		hash(style),
		hash(plot),
		hash(pageScript),
	)
	for _, text := range []string{
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n",
		`<meta http-equiv="Content-Security-Policy" content="` + policy + "\"/>\n",
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
			html.EscapeString(d.Title) + "</title>\n",
		"<style>" + style +
			"</style>\n</head>\n<body>\n<main id=\"page\"><noscript>This page needs JavaScript to be " +
			"drawn.</noscript></main>\n",
		"<script type=\"application/json\" id=\"data\">" + string(data) + "</script>\n",
		"<script>" + plot + "</script>\n<script>" + pageScript + "</script>\n</body>\n</html>\n",
	} {
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// hash is how a content security policy names the text of an element.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
