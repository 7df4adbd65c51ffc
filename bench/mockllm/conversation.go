package mockllm

// conversation reads the template's head, the system prompt, every message's text in order, the template's tail. name
// is the key of the messages. The input of /v1/responses may be a string.
func (d *decoder) conversation(name string, system, messages rawJSON) error {
	if !given(messages) {
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
	var list []struct {
		Role      rawJSON `json:"role"`
		Content   rawJSON `json:"content"`
		Output    rawJSON `json:"output"` // of a tool call, which is an item of its own in /v1/responses and has no role
		Arguments rawJSON `json:"arguments"`
	}
	if err := readJSON(value, &list); err != nil {
		return err
	}
	if len(list) == 0 {
		return badRequest("%s: at least one is needed", name)
	}
	for _, m := range list {
		if m.Role == nil && m.Output == nil && m.Arguments == nil {
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

// content reads a string, null, or an array of parts with text, or with contents of their own as a tool's results.
func (d *decoder) content(value rawJSON, depth int) error {
	switch {
	case !given(value):
		return nil
	case value[0] == '"':
		return d.hash.text(value)
	case depth > maxContentDepth:
		return badRequest("content: nested too deeply")
	}
	var list []struct {
		Text    rawJSON `json:"text"`
		Content rawJSON `json:"content"`
	}
	err := readJSON(value, &list)
	for _, part := range list {
		if err == nil && given(part.Text) {
			err = d.hash.text(part.Text)
		}
		if err == nil {
			err = d.content(part.Content, depth+1)
		}
	}
	return err
}
