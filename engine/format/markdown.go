package format

import "strings"

// Markdown returns text as GitHub's Markdown shows it: none of it is markup, and it mentions nobody.
func Markdown(text string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "~", "\\~", "|", "\\|",
		"&", "&amp;", "<", "&lt;", "@", "&#64;", "://", "&#58;//",
	).Replace(Visible(text))
}

// MarkdownTable is a table with its head, whose first column has names and the others numbers.
func MarkdownTable(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		for _, cell := range cells {
			b.WriteString("| " + Markdown(cell) + " ")
		}
		b.WriteString("|\n")
	}
	line(head)
	b.WriteString("|---" + strings.Repeat("|--:", len(head)-1) + "|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// Annotation is a line that GitHub shows beside a job. The level is error or warning.
func Annotation(level, text string) string {
	return "::" + level + " title=fastreplay::" + strings.ReplaceAll(Visible(text), "%", "%25")
}
