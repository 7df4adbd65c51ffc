package setup

import (
	"fmt"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Level says for whom a note is.
type Level int

const (
	Detail Level = iota // for who wants to see each step
	Brief               // in place of details, for who does not
	Line                // for everybody
	Keep                // for everybody, and for the results
)

// Note is what is worth knowing of a run before its first request. Its text is a sentence or a line of a list, and may
// have several lines. What results do not keep has no code.
type Note struct {
	Level Level
	metrics.Note
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
	Kept []metrics.Note
}

// Say tells a note. code names the kind of one that results keep.
func (n *Notes) Say(level Level, code, format string, args ...any) {
	note := metrics.Note{Code: code, Text: fmt.Sprintf(format, args...)}
	if level == Keep {
		n.Kept = append(n.Kept, note)
	}
	n.Note(Note{level, note})
}

func (p *Prepared) detail(format string, args ...any) { p.notes.Say(Detail, "", format, args...) }

func (p *Prepared) line(format string, args ...any) { p.notes.Say(Line, "", format, args...) }

// note tells what results keep, too. The manual's list of codes is made of the calls.
func (p *Prepared) note(code, format string, args ...any) { p.notes.Say(Keep, code, format, args...) }
