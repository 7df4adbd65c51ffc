package api

// raw posts payloads as they are, to a path that the user names, and takes any answer.
func raw() kind {
	return kind{name: "raw", reads: anything, traits: Traits{Generates: true, Streams: true, Stateful: true}}
}

// anyEvent takes an event as a token chunk unless it says something else, in whatever form.
func anyEvent(data []byte, d *Delta) {
	err := parseEvent(data, d, freely)
	if len(data) == 0 || d.Done {
		return
	}
	if err != nil {
		d.Reset()
	}
	if err != nil || !d.Token && !d.EmptyFinish && d.Finish == "" && !d.HasUsage() && !d.IsError {
		d.Token, d.Text = true, true
	}
}

// anyBody takes an answer for what it says in OpenAI's words, if in any, and else for one piece of text.
func anyBody(body []byte, d *Delta) {
	if parseBody(body, d, freely) != nil {
		d.Reset()
	}
	d.Token, d.Text = !d.IsError, !d.IsError
}
