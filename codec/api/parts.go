package api

// parts reads the parts of an answer's content, in the APIs of which a whole answer has such: texts, and calls of tools.
func (p *parser) parts() {
	for more := p.array() && p.element(); more; more = p.element() {
		p.part()
	}
}

func (p *parser) part() {
	var text []byte
	said := false
	for key, ok := p.firstKey(); ok; key, ok = p.key() {
		switch string(key) {
		case "type":
			said = p.partType()
		case "text":
			text, _, _ = p.text()
		default:
			p.skip()
		}
	}
	if said {
		p.say(text)
	}
}

// partType reports whether the type of a part, which comes next, is that of an answer's text.
func (p *parser) partType() bool {
	switch kind, _, _ := p.text(); string(kind) {
	case "text", "output_text":
		return true
	case "tool_use":
		p.d.Tool = true
	}
	return false
}

// say adds to the answer's text. A second piece allocates: events have one, and most whole answers.
func (p *parser) say(text []byte) {
	if len(p.d.Content) == 0 {
		p.d.Content = text
		return
	}
	p.d.Content = append(p.d.Content[:len(p.d.Content):len(p.d.Content)], text...)
}
