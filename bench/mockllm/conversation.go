package mockllm

// conversation reads the template's head, the system prompt, every message's text in order, the template's tail. name is
// the key of the messages. The input of /v1/responses may be a string.
func (d *decoder) conversation(name string, system, messages rawJSON) error {
	if messages == nil {
		return nil
	}
	d.p.hasPrompt = true
	d.hash.special(d.cfg.TemplateHead, specialHead)
	err := d.content(system, 0)
	switch {
	case err != nil:
	case name == "input" && messages[0] == '"':
		err = d.hash.text(messages)
	default:
		err = d.messages(name, messages)
	}
	d.hash.special(d.jitter, specialJitter)
	d.hash.special(d.cfg.TemplateTail, specialTail)
	return err
}

func (d *decoder) messages(name string, list rawJSON) error {
	count := 0
	err := walk(list, func(_, message rawJSON) error {
		count++
		hasRole := false
		err := walk(message, func(key, value rawJSON) error {
			switch string(key) {
			case "role":
				hasRole = true
				return ignore(value)
			case "output", "arguments": // of a tool call, which is an item of its own in /v1/responses and has no role
				hasRole = true
				return d.content(value, 0)
			case "content":
				return d.content(value, 0)
			}
			return ignore(value)
		})
		if err == nil && !hasRole {
			err = badRequest("%s: a message without a role", name)
		}
		return err
	})
	if err == nil && count == 0 {
		return badRequest("%s: at least one is needed", name)
	}
	return err
}

// maxContentDepth bounds how deep contents may stand in contents; a tool's results stand in a message's.
const maxContentDepth = 8

// content reads a string, null, or an array of parts with text, or with contents of their own as a tool's results.
func (d *decoder) content(value rawJSON, depth int) error {
	switch {
	case value == nil || string(value) == "null":
		return nil
	case value[0] == '"':
		return d.hash.text(value)
	case depth > maxContentDepth:
		return badRequest("content: nested too deeply")
	}
	return walk(value, func(_, part rawJSON) error {
		return walk(part, func(key, value rawJSON) error {
			switch string(key) {
			case "text":
				return d.hash.text(value)
			case "content":
				return d.content(value, depth+1)
			}
			return ignore(value)
		})
	})
}
