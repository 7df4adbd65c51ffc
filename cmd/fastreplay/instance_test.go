package main

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

// TestAnswerersNotes: what was asked for by name and came nowhere is said, once somebody has answered.
func TestAnswerersNotes(t *testing.T) {
	nobody, silent, named := []record.Record{{Status: 503}}, []record.Record{{Status: 200}, {Status: 503}}, []record.Record{{Status: 200}, {Status: 200, Instance: "a"}}
	for _, c := range []struct {
		line    string
		records []record.Record
		want    string
	}{
		{"", silent, ""},
		{"--instance-header x-a", nobody, ""},
		{"--instance-header x-a", named, ""},
		{"--instance-header x-a", silent, "no answer had the header x-a: which instance answered is unknown"},
		{"--instance-header x-a --instance-header x-b", silent, "no answer had the header x-a or x-b: which instance answered is unknown"},
		{"--instance-field a.b", silent, "no answer had the field a.b: which instance answered is unknown"},
		{"--instance-field a --instance-header x-a", silent, "no answer had the header x-a or the field a: which instance answered is unknown"},
	} {
		o, err := given(t, "trace.jsonl "+c.line)
		if err != nil {
			t.Fatal(err)
		}
		var a answerers
		for i := range c.records {
			a.add(&c.records[i])
		}
		if got := strings.Join(a.notes(o), "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

func TestInstanceFieldIsAPath(t *testing.T) {
	for _, field := range []string{"..", "", "a.", ".a", "a..b"} {
		if _, err := given(t, "trace.jsonl --instance-field="+field); err == nil || !strings.Contains(err.Error(), "want keys with dots between them") {
			t.Errorf("--instance-field %q: %v", field, err)
		}
	}
}
