package mockllm

import "strings"

// template is text of a protocol in which values of a reply stand.
//
//	$name          a value
//	<name|a|b>     a if a condition holds, else b; "|b" may be missing
//
// The names are those of reply.appendValue and reply.is. Appending a template allocates nothing.
type template []piece

// piece is a stretch of text and what follows it: a value, a choice or nothing.
type piece struct {
	text    string
	value   string
	when    string
	yes, no template
}

func (t template) append(r *reply, dst []byte) []byte {
	for i := range t {
		p := &t[i]
		dst = append(dst, p.text...)
		switch {
		case p.value != "":
			dst = r.appendValue(dst, p.value)
		case p.when == "":
		case r.is(p.when):
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
		panic("BUG: a template goes on behind its end: " + rest)
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
		mark := text[at]
		if mark == '|' || mark == '>' {
			return append(t, p), text[at:]
		}
		text = text[at+1:]
		name := text[:len(text)-len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz_"))]
		text = text[len(name):]
		if mark == '$' {
			p.value = name
		} else {
			p.when = name
			p.yes, text = parsePieces(strings.TrimPrefix(text, "|"))
			if strings.HasPrefix(text, "|") {
				p.no, text = parsePieces(text[1:])
			}
			text = strings.TrimPrefix(text, ">")
		}
		t = append(t, p)
	}
}
