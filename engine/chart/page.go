package chart

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
)

//go:embed style.css
var style string

// HTML is text that stands in a page as it is.
type HTML string

// Page gathers an HTML page. It is no html/template: the linker keeps every exported method of a program that uses one, 2.7 MB here.
type Page struct{ b strings.Builder }

// NewPage begins a page with our style, after which more of the style may follow.
func NewPage(title, more string, args ...any) *Page {
	p := &Page{}
	p.Add("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%s</title>\n<style>\n%s", title, HTML(style))
	p.Add(more, args...)
	p.Add("</style>\n<h1>%s</h1>\n", title)
	return p
}

// Add appends text, formatted as by fmt; strings in args are escaped.
func (p *Page) Add(format string, args ...any) {
	escaped := make([]any, len(args))
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			arg = escape(text)
		}
		escaped[i] = arg
	}
	fmt.Fprintf(&p.b, format, escaped...)
}

// escape writes text so that it is text in an element and in a quoted attribute.
func escape(text string) string {
	return strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// Plots appends the plots that have a figure.
func (p *Page) Plots(plots []Plot) {
	for _, plot := range plots {
		if len(plot.Figures) == 0 {
			continue
		}
		if plot.Title != "" {
			p.Add("<h2>%s</h2>\n", plot.Title)
		}
		p.Add("<div class=\"plots\">\n")
		for _, f := range plot.Figures {
			p.Add("<figure><h3>%s</h3>%s", f.Title, f.SVG)
			if len(f.Keys) > 0 {
				p.Add("<figcaption>")
				for i, key := range f.Keys {
					p.Add(`<span class="key%s"></span>%s`, If(i > 0, " second"), key)
				}
				p.Add("</figcaption>")
			}
			p.Add("</figure>\n")
		}
		p.Add("</div>\n")
	}
}

// If returns the text if the condition holds, else nothing.
func If(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// Write ends the page and writes it.
func (p *Page) Write(w io.Writer) error {
	p.Add("</html>\n")
	_, err := io.WriteString(w, p.b.String())
	return err
}
