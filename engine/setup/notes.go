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

// silent observes nothing.
type silent struct{}

func (silent) Note(Note) {}

func (silent) Work(string, int64, func(int64) string) (*atomic.Int64, func()) {
	return new(atomic.Int64), func() {}
}

func (silent) Waiting(string) {}

func (p *Prepared) say(level Level, format string, args ...any) {
	p.observer.Note(Note{level, fmt.Sprintf(format, args...)})
}

func (p *Prepared) detail(format string, args ...any) { p.say(Detail, format, args...) }

func (p *Prepared) line(format string, args ...any) { p.say(Line, format, args...) }

// note is for the results, too.
func (p *Prepared) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
	p.say(Keep, format, args...)
}
