package manual

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/fastreplay/fastreplay/engine/format"
)

// Marks of style inside a text that is laid out. They take no column, so widths are those of the words.
const boldMark, underlineMark, plainMark = "\x01", "\x02", "\x03"

var (
	inlineMarkup = regexp.MustCompile(
		"`([^`]+)`|\\*\\*([^*]+)\\*\\*|\\*([^*\\s][^*]*)\\*|!?\\[([^\\]]*)\\]\\(([^)]*)\\)")
	listItem     = regexp.MustCompile(`^(- |\d+\. )(.*)$`)
	hiddenMarkup = regexp.MustCompile(`(?s)<!--.*?-->\n+`)
)

// LayOut renders the Markdown of the manual for a terminal of width columns. It supports headings, paragraphs, lists of
// one level, tables, code indented by four spaces, bold, emphasis and links. Without style it adds no escape sequences.
func LayOut(page string, width int, style bool) string {
	p := &layout{width: width}
	for line := range strings.Lines(hiddenMarkup.ReplaceAllString(page, "")) {
		p.line(strings.TrimRight(line, "\n"))
	}
	p.flush()
	marks := strings.NewReplacer(boldMark, "\x1b[1m", underlineMark, "\x1b[4m", plainMark, "\x1b[0m")
	if !style {
		marks = strings.NewReplacer(boldMark, "", underlineMark, "", plainMark, "")
	}
	return marks.Replace(p.out.String())
}

// layout collects the lines of a block, and prints the block when the next one begins.
type layout struct {
	out   strings.Builder
	width int
	text  string     // of a paragraph or an item of a list
	lead  string     // what stands before an item: "- " or "1. "
	rows  [][]string // of a table
	code  []string
}

func (p *layout) line(text string) {
	item := listItem.FindStringSubmatch(text)
	code := strings.HasPrefix(text, "    ") && p.text == "" || text == "" && len(p.code) > 0
	heading := strings.HasPrefix(text, "#")
	turns := code == (len(p.code) == 0) // into a block of code, or out of it
	if turns || heading || item != nil || text == "" && !code {
		p.flush()
	}
	switch {
	case strings.HasPrefix(text, "|"):
		p.rows = append(p.rows, cells(text))
	case code:
		p.code = append(p.code, strings.TrimPrefix(text, "    "))
	case heading:
		p.out.WriteString(styled(boldMark, inline(strings.TrimLeft(text, "# "))) + "\n")
	case item != nil:
		p.lead = item[1]
		p.text = item[2] + " "
	case text == "":
		p.out.WriteString("\n")
	default:
		p.text += text + " "
	}
}

// flush prints the block that is collected. Code that needs the whole width, such as a screen, is not indented.
func (p *layout) flush() {
	indent := "  "
	for _, line := range p.code {
		if uniseg.StringWidth(indent+line) > p.width {
			indent = ""
		}
	}
	for _, line := range p.code {
		p.out.WriteString(strings.TrimRight(indent+line, " ") + "\n")
	}
	p.code = nil
	lead := p.lead
	for _, line := range format.Fill(inline(p.text), p.width-len(lead)) {
		p.out.WriteString(lead + line + "\n")
		lead = strings.Repeat(" ", len(lead))
	}
	if len(p.rows) > 1 {
		p.table()
	}
	p.text = ""
	p.rows = nil
	p.lead = ""
}

// table prints rows in columns. If they need more room than there is, the widest columns are wrapped, but no word is
// cut.
func (p *layout) table() {
	widths := make([]int, len(p.rows[0]))
	least := make([]int, len(p.rows[0]))
	p.rows = slices.Delete(p.rows, 1, 2) // the rule below the head
	for _, row := range p.rows {
		for i := range widths {
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
			for _, word := range strings.Fields(row[i]) {
				least[i] = min(p.width*3/5, max(least[i], uniseg.StringWidth(word)))
			}
		}
	}
	for most := slices.Max(widths); ; most-- {
		total := -2 // columns are 2 apart
		for i := range widths {
			widths[i] = max(least[i], min(widths[i], most))
			total += widths[i] + 2
		}
		if total <= p.width || most == 0 {
			break
		}
	}
	for r, row := range p.rows {
		if strings.Join(row, "") == "" {
			continue // a head without words
		}
		var lines []string
		before := 0
		for i, width := range widths {
			text := row[i]
			if r == 0 {
				text = styled(underlineMark, text)
			}
			for n, part := range format.Fill(text, width) {
				if n == len(lines) {
					lines = append(lines, "")
				}
				lines[n] += strings.Repeat(" ", max(min(2, before), before-uniseg.StringWidth(lines[n]))) + part
			}
			before += width + 2
		}
		p.out.WriteString(strings.Join(lines, "\n") + "\n")
	}
}

// cells splits a row of a table; a bar may stand in it as \|.
func cells(row string) []string {
	parts := strings.Split(strings.ReplaceAll(strings.Trim(row, "|"), `\|`, "\x00"), "|")
	for i := range parts {
		parts[i] = inline(strings.ReplaceAll(strings.TrimSpace(parts[i]), "\x00", "|"))
	}
	return parts
}

// inline replaces the markup in a text by marks of style. A link shows its text and, unless it leads to the same page,
// its target.
func inline(text string) string {
	return inlineMarkup.ReplaceAllStringFunc(text, func(markup string) string {
		part := inlineMarkup.FindStringSubmatch(markup)
		page, _, inManual := strings.Cut(part[5], ".md")
		switch {
		case part[5] == "":
			return styled(boldMark, part[1]+inline(part[2])) + styled(underlineMark, part[3])
		case strings.HasPrefix(part[5], "#"):
			return inline(part[4])
		case part[4] == page:
			return styled(boldMark, "help "+page)
		case inManual && !strings.Contains(page, "/"):
			return inline(part[4]) + " (help " + page + ")"
		}
		return inline(part[4]) + " (" + strings.TrimPrefix(part[5], "../../../") + ")"
	})
}

// styled marks each word, so that a line may end between any two.
func styled(mark, text string) string {
	if text == "" {
		return ""
	}
	return mark + strings.ReplaceAll(text, " ", plainMark+" "+mark) + plainMark
}
