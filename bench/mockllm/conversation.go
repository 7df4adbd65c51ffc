package mockllm

// message is one of a conversation. An item of /v1/responses that is about a tool call has output or arguments, and no role.
type message struct {
	Role      *string `json:"role"`
	Content   rawJSON `json:"content"`
	Output    rawJSON `json:"output"`
	Arguments rawJSON `json:"arguments"`
}

// contentPart is a part of a message: text, or parts of its own as in a tool's results.
type contentPart struct {
	Text    rawJSON `json:"text"`
	Content rawJSON `json:"content"`
}

// conversation reads the template's head, the system prompt, every message's text in order, the template's tail. name is
// the key of the messages. The input of /v1/responses may be a string.
func (d *decoder) conversation(name string, system, messages rawJSON) error {
	if !isGiven(messages) {
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

func (d *decoder) messages(name string, value rawJSON) error {
	var list []message
	if err := unmarshal(name, value, &list); err != nil {
		return err
	}
	if len(list) == 0 {
		return badRequest("%s: at least one is needed", name)
	}
	for _, m := range list {
		if m.Role == nil && !isGiven(m.Output) && !isGiven(m.Arguments) {
			return badRequest("%s: a message without a role", name)
		}
		for _, value := range []rawJSON{m.Content, m.Output, m.Arguments} {
			if err := d.content(value, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxContentDepth bounds how deep contents may stand in contents; a tool's results stand in a message's.
const maxContentDepth = 8

// content reads a string, null, or an array of parts.
func (d *decoder) content(value rawJSON, depth int) error {
	switch {
	case !isGiven(value):
		return nil
	case value[0] == '"':
		return d.hash.text(value)
	case depth > maxContentDepth:
		return badRequest("content: nested too deeply")
	}
	var parts []contentPart
	if err := unmarshal("content", value, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		if isGiven(part.Text) {
			if err := d.hash.text(part.Text); err != nil {
				return err
			}
		}
		if err := d.content(part.Content, depth+1); err != nil {
			return err
		}
	}
	return nil
}
