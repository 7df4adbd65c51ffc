package engine

import (
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/sse"
)

// answerText gathers the text of a reply, where a later turn wants it. It grows once per connection and size.
type answerText struct {
	wanted bool
	text   []byte // inside of a JSON string
	tool   bool   // the reply calls one
}

func (a *answerText) reset() { a.wanted, a.text, a.tool = false, sse.Reuse(nil, a.text), false }

// add takes what an event or a whole body says.
func (a *answerText) add(d *api.Delta) {
	if a.wanted {
		a.text, a.tool = append(a.text, d.Content...), a.tool || d.Tool
	}
}
