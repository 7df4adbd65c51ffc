package api

import "testing"

func TestParseAllocatesNothing(t *testing.T) {
	var events [][]byte
	for _, c := range documents {
		if c.name != "unknown finish reason" && c.name != "escaped key" {
			events = append(events, []byte(c.in))
		}
	}
	events = append(events, []byte(completionChunk), []byte(completionChunk))
	done := []byte("[DONE]")
	b, err := New("chat", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var d Delta
	if n := testing.AllocsPerRun(100, func() {
		for _, e := range events {
			if b.ParseEvent(e, &d) != nil || b.ParseBody(e, &d) != nil || b.ParseEvent(done, &d) != nil {
				t.Fatalf("%s", e)
			}
		}
	}); n != 0 {
		t.Fatalf("%v allocations for %d events, want 0", n, len(events))
	}
}
