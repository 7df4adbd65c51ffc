package mockllm

// later notes where the value of a key begins, to read it when the whole object is known, and skips it. What stands
// first in a prompt need not stand first in the body.
func later(at func(*decoder) *int) func(*decoder) error {
	return func(d *decoder) error {
		d.peek()
		*at(d) = d.i
		return d.skip(0)
	}
}

var laterMessages, laterSystem = later(func(d *decoder) *int { return &d.messagesAt }), later(func(d *decoder) *int { return &d.systemAt })

// assemble reads a conversation whose values were noted by later: the template's head, the system prompt, every message's
// text in order, the template's tail. It leaves the scanner where it was. Name is the key of the messages.
func (d *decoder) assemble(name string) (err error) {
	if d.messagesAt == 0 {
		return nil
	}
	if err := d.oncePrompt(name); err != nil {
		return err
	}
	end := d.i
	d.hash.special(d.cfg.TemplateHead, specialHead)
	if d.i = d.systemAt; d.i > 0 {
		err = d.content(0)
	}
	if d.i = d.messagesAt; err == nil {
		if name == "input" && d.peek() == '"' {
			err = d.words(d.hash)
		} else {
			err = d.turns(name)
		}
	}
	d.hash.special(d.jitter, specialJitter)
	d.hash.special(d.cfg.TemplateTail, specialTail)
	d.i = end
	return err
}

// turns reads the messages' array.
func (d *decoder) turns(name string) error {
	count := 0
	err := d.array(func() error {
		count++
		return d.message(name)
	})
	if err == nil && count == 0 {
		return badRequest("%s: at least one is needed", name)
	}
	return err
}

func (d *decoder) message(name string) error {
	hasRole := false
	err := d.object(func(key []byte) (err error) {
		switch string(key) {
		case "role":
			hasRole = true
			_, err = d.text()
		case "output", "arguments": // of a tool call, which is an item of its own in /v1/responses and has no role
			hasRole = true
			err = d.content(0)
		case "content":
			err = d.content(0)
		default:
			err = d.skip(2)
		}
		return err
	})
	if err == nil && !hasRole {
		return badRequest("%s: a message without a role", name)
	}
	return err
}

// content reads a string, null, or an array of parts with text, or with contents of their own as a tool's results.
func (d *decoder) content(depth int) error {
	switch {
	case depth > maxDepth:
		return d.fail("nested too deeply")
	case d.literal("null"):
		return nil
	case d.peek() == '"':
		return d.words(d.hash)
	}
	return d.array(func() error {
		return d.object(func(key []byte) error {
			switch string(key) {
			case "text":
				return d.words(d.hash)
			case "content":
				return d.content(depth + 1)
			}
			return d.skip(4)
		})
	})
}
