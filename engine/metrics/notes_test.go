package metrics

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestAddNotes: a code stands at the place of its text, also behind notes of a version that had no codes.
func TestAddNotes(t *testing.T) {
	s := &Summary{Notes: []string{"old one", "old two"}}
	own := s.Notes[:1:2]
	s.AddNotes(2, NotesOf("last", "%d %%", 5))
	var notes Notes
	notes.Add(false, "none", "left out")
	notes.Add(true, "first", "one")
	notes.Add(true, "second", "two")
	s.AddNotes(1, notes)
	expect.List(t, s.Notes, []string{"old one", "one", "two", "old two", "5 %"}, "texts")
	expect.List(t, s.NoteCodes, []string{"", "first", "second", "", "last"}, "codes")
	expect.Equal(t, own[:2][1], "old two", "the caller's notes")
	empty := new(Summary)
	empty.AddNotes(0, nil)
	if empty.Notes == nil || empty.NoteCodes == nil {
		t.Error("no notes are null in JSON")
	}
}
