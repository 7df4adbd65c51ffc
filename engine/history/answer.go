package history

import (
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/sse"
)

// Answer gathers the text of a reply, where a later turn wants it. It grows once per connection and size.
type Answer struct {
	Wanted bool
	Text   []byte // inside of a JSON string
	tool   bool   // the reply calls one
}

func (a *Answer) Reset() { a.Wanted, a.Text, a.tool = false, sse.Reuse(nil, a.Text), false }

// Add takes what an event or a whole body says.
func (a *Answer) Add(d *api.Delta) {
	if a.Wanted {
		a.Text, a.tool = append(a.Text, d.Content...), a.tool || d.Tool
	}
}
