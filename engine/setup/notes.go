package setup

import (
	"fmt"
	"sync/atomic"
)

// Level says for whom a note is.
type Level int

const (
	Detail Level = iota // for who wants to see each step
	Brief               // in place of details, for who does not
	Line                // for everybody
	Keep                // for everybody, and for the results
)

// Note is what is worth knowing of a run before its first request.
type Note struct {
	Level Level
	Text  string // a sentence or a line of a list; may have several lines
}

// Observer sees how a setup goes on.
type Observer interface {
	// Note is called by the goroutine that prepares, in order.
	Note(Note)
	// Work begins a step that takes long; the caller sets done to what of total has been done, and calls end.
	Work(what string, total int64, words func(int64) string) (done *atomic.Int64, end func())
	// Waiting is called, by any goroutine, with what has been waited for these 2 s.
	Waiting(what string)
}

// Silent observes nothing.
type Silent struct{}

// Note implements Observer.
func (Silent) Note(Note) {}

// Work implements Observer.
func (Silent) Work(string, int64, func(int64) string) (*atomic.Int64, func()) {
	return new(atomic.Int64), func() {}
}

// Waiting implements Observer.
func (Silent) Waiting(string) {}

// Notes tells an observer what is worth knowing, and collects what results keep of it.
type Notes struct {
	Observer
	Kept []string
}

// Say tells a note.
func (n *Notes) Say(level Level, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if level == Keep {
		n.Kept = append(n.Kept, text)
	}
	n.Note(Note{level, text})
}

func (p *Prepared) detail(format string, args ...any) { p.notes.Say(Detail, format, args...) }

func (p *Prepared) line(format string, args ...any) { p.notes.Say(Line, format, args...) }

func (p *Prepared) note(format string, args ...any) { p.notes.Say(Keep, format, args...) }
