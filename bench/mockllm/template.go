package mockllm

import (
	"fmt"
	"strings"
)

// template is text of a protocol in which a reply's values stand:
//
//	$name          a value
//	<name|a|b>     a if a condition holds, else b; "|b" may be missing
//
// The names are those of values and conditions (vocabulary.go). Appending a template allocates nothing.
type template []piece

// piece is a stretch of text and what follows it: a value, a choice or nothing.
type piece struct {
	text    string
	value   func(r *reply, dst []byte) []byte
	when    func(r *reply) bool
	yes, no template
}

func (t template) append(r *reply, dst []byte) []byte {
	for i := range t {
		p := &t[i]
		dst = append(dst, p.text...)
		switch {
		case p.value != nil:
			dst = p.value(r, dst)
		case p.when == nil:
		case p.when(r):
			dst = p.yes.append(r, dst)
		default:
			dst = p.no.append(r, dst)
		}
	}
	return dst
}

// parseTemplate reads a template of this package.
func parseTemplate(text string) template {
	t, rest := parsePieces(text)
	if rest != "" {
		panic(fmt.Sprintf("BUG: template %q goes on behind its end: %q", text, rest))
	}
	return t
}

// parsePieces reads as far as a '|' or '>' that belongs to a choice around it, and returns the rest from there.
func parsePieces(text string) (t template, rest string) {
	for {
		at := strings.IndexAny(text, "$<|>")
		if at < 0 {
			return append(t, piece{text: text}), ""
		}
		p := piece{text: text[:at]}
		mark, behind := text[at], text[at+1:]
		if mark == '|' || mark == '>' {
			return append(t, p), text[at:]
		}
		name := behind[:len(behind)-len(strings.TrimLeft(behind, "abcdefghijklmnopqrstuvwxyz_"))]
		text = behind[len(name):]
		if mark == '$' {
			p.value = values[name]
		} else {
			p.when = conditions[name]
			p.yes, text = parsePieces(strings.TrimPrefix(text, "|"))
			if strings.HasPrefix(text, "|") {
				p.no, text = parsePieces(text[1:])
			}
			text = strings.TrimPrefix(text, ">")
		}
		if p.value == nil && p.when == nil {
			panic(fmt.Sprintf("BUG: no value or condition %q", name))
		}
		t = append(t, p)
	}
}
