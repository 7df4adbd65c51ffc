package mockllm

// messages reads a conversation: the template's head, every message's text in order, the template's tail.
func (d *decoder) messages() error {
	if err := d.oncePrompt("messages"); err != nil {
		return err
	}
	d.hash.special(d.cfg.TemplateHead, specialHead)
	if err := d.turns("messages"); err != nil {
		return err
	}
	d.closeTemplate()
	return nil
}

// closeTemplate adds what the template has after the messages.
func (d *decoder) closeTemplate() {
	d.hash.special(d.jitter, specialJitter)
	d.hash.special(d.cfg.TemplateTail, specialTail)
}

// later notes where the value of a key begins, to read it when the whole object is known, and skips it. What stands
// first in a prompt need not stand first in the body.
func (d *decoder) later(at *int) error {
	d.peek()
	*at = d.i
	return d.skip(0)
}

// assemble reads a conversation whose values were noted by later: the system prompt, then the messages. It leaves the
// scanner where it was.
func (d *decoder) assemble(name string) error {
	if d.messagesAt == 0 {
		return nil
	}
	end := d.i
	d.hash.special(d.cfg.TemplateHead, specialHead)
	if d.systemAt > 0 {
		d.i = d.systemAt
		if err := d.content(0); err != nil {
			return err
		}
	}
	d.i = d.messagesAt
	if d.peek() == '"' {
		if err := d.words(d.hash); err != nil {
			return err
		}
	} else if err := d.turns(name); err != nil {
		return err
	}
	d.closeTemplate()
	d.p.hasPrompt = true
	d.i = end
	return nil
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
