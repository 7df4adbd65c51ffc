package chatml

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// TestHistoryIsBounded: strangers neither make a conversation grow without end, nor what is remembered of all. One that
// is too long is forgotten and not cut, so that no prompt lacks a part.
func TestHistoryIsBounded(t *testing.T) {
	var h History
	var fault error
	text := strings.Repeat("x", conversationBytes/4)
	said := func(id, before string) (whole string) {
		body := rows.ObjectOf(fmt.Appendf(nil, `{"previous_response_id":"%s","input":"%s"}`, before, text), &fault)
		if before == "" {
			body = rows.ObjectOf(fmt.Appendf(nil, `{"input":"%s"}`, text), &fault)
		}
		whole = string(h.Whole(body))
		h.Keep(body, rows.ObjectOf(fmt.Appendf(nil, `{"id":"%s","output":[]}`, id), &fault))
		return whole
	}
	most := 0
	for conversation := range 40 {
		before := ""
		for turn := range 6 {
			whole := said(fmt.Sprint(conversation, ".", turn), before)
			before = fmt.Sprint(conversation, ".", turn)
			known := turn == 0 || turn < 4
			if strings.Contains(whole, BeforeKey) == known {
				t.Errorf("turn %d of %d: known is not %v", turn, conversation, known)
			}
			if want := (turn + 1) * len(text); known && len(whole) < want {
				t.Errorf("turn %d of %d has %d bytes, not %d", turn, conversation, len(whole), want)
			}
			held := 0
			for _, kept := range h.turns {
				held += len(kept.items)
			}
			most = max(most, held)
		}
	}
	expect.Equal(t, fault, nil, "fault")
	if most > historyBytes || most < historyBytes/2 {
		t.Errorf("%d bytes were held of %d", most, historyBytes)
	}
}

// TestHistoryOfNothing: turns that say nothing make neither a body that is no JSON nor a conversation of ever more turns.
func TestHistoryOfNothing(t *testing.T) {
	var h History
	var fault error
	of := func(text string, of ...any) rows.Object { return rows.ObjectOf(fmt.Appendf(nil, text, of...), &fault) }
	h.Keep(of(`{"input":[]}`), of(`{"id":"0","output":[]}`))
	expect.Equal(t, string(h.Whole(of(`{"previous_response_id":"0"}`))), `{"input":[]}`, "nothing after nothing")
	h.Keep(of(`{"input":"x"}`), of(`{"id":"0","output":[]}`))
	for i := range 100 {
		body := of(`{"previous_response_id":"%d","input":[]}`, i)
		expect.Equal(t, string(h.Whole(body)), `{"input":[{"role":"user","content":"x"}]}`, "turn %d", i)
		h.Keep(body, of(`{"id":"%d","output":[]}`, i+1))
	}
	turns := 0
	for turn := h.turns["100"]; turn != nil; turn = turn.before {
		turns++
	}
	expect.Equal(t, turns, 1, "turns that say something")
	expect.Equal(t, fault, nil, "fault")
}

// TestWholeMessages: beside messages, which are a whole prompt, a conversation is not one that the server keeps.
func TestWholeMessages(t *testing.T) {
	for content, want := range map[string]string{
		`"messages":[{"role":"user","content":"hi"}],"conversation":"1"`: "<nil>",
		`"input":"hi","conversation":"1"`:                                "conversation: what was said before is in no row before this one",
	} {
		_, err := Of(rows.Verbatim{Kind: rows.VerbatimPayload, Content: []byte(content)})
		expect.Contains(t, fmt.Sprint(err), want)
	}
}

// TestHistoryOfStrangers: ids count too, and what is too long to be remembered takes the place of nothing.
func TestHistoryOfStrangers(t *testing.T) {
	var h History
	keep := func(id, before, input string) {
		body := rows.ObjectOf(fmt.Appendf(nil, `{"previous_response_id":%s,"input":%s}`, before, input), new(error))
		h.Keep(body, rows.ObjectOf(fmt.Appendf(nil, `{"id":"%s","output":[]}`, id), new(error)))
	}
	keep("ours", "null", `"hello"`)
	for n := range 2 * historyBytes / conversationBytes {
		keep(fmt.Sprint(n), "null", `"`+strings.Repeat("x", conversationBytes)+`"`)
	}
	expect.Equal(t, h.turns["ours"] != nil, true, "ours is known after what is too long")
	for n := range 3 * historyBytes / conversationBytes {
		keep(fmt.Sprint(n, strings.Repeat("x", conversationBytes/2)), "null", `""`)
	}
	ids := 0
	for id := range h.turns {
		ids += len(id)
	}
	if ids > historyBytes || ids < historyBytes/4 {
		t.Errorf("ids of %d bytes are held", ids)
	}
}

// TestHistoryOfUnfinished: what the server still works on is not known, and what goes on from it is not cut.
func TestHistoryOfUnfinished(t *testing.T) {
	for status, known := range map[string]bool{
		"": true, `,"status":"completed"`: true, `,"status":"incomplete"`: true,
		`,"status":"queued"`: false, `,"status":"in_progress"`: false,
	} {
		var h History
		first := rows.ObjectOf([]byte(`{"input":"a"}`), new(error))
		h.Keep(first, rows.ObjectOf([]byte(`{"id":"r","output":[]`+status+`}`), new(error)))
		then := h.Whole(rows.ObjectOf([]byte(`{"input":"b","previous_response_id":"r"}`), new(error)))
		expect.Equal(t, !bytes.Contains(then, []byte(BeforeKey)), known, "known with %q", status)
	}
}
