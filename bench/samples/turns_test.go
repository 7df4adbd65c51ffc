package samples

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
)

func TestTurns(t *testing.T) {
	for path, c := range map[string]struct {
		made     []byte
		format   string
		rows     int
		messages int // rows with the messages of a chat; the rest is text
		answers  int
		left     int
	}{
		"single_turn.jsonl": {made: singleTurn(), format: "single_turn", rows: 150, messages: 30},
		"multi_turn.jsonl":  {made: multiTurn(), format: "multi_turn", rows: 100, messages: 100, answers: 100},
		"sharegpt.json":     {made: shareGPT(), format: "sharegpt", rows: 162, messages: 162, answers: 162, left: 3},
	} {
		checkFile(t, path, c.made)
		tr := must.Have(trace.Open(path, trace.Options{}))(t)
		messages, answers := 0, 0
		for i := range tr.Len() {
			if tr.Verbatim(i).Kind == trace.VerbatimMessages {
				messages++
			}
			if tr.Answer(i) != nil {
				answers++
			}
		}
		if tr.Format != c.format || tr.Len() != c.rows || tr.Verbatims() != c.rows || messages != c.messages || answers != c.answers || tr.Lint.Unanswered != c.left || tr.Untimed != (c.format == "sharegpt") || tr.SpanNS() > 8e9 {
			t.Errorf("%s: %s, %d rows, %d verbatim, %d messages, %d answers, %d left out, untimed %v, %d ns", path, tr.Format, tr.Len(), tr.Verbatims(), messages, answers, tr.Lint.Unanswered, tr.Untimed, tr.SpanNS())
		}
	}
}

// speaker makes up what is said: words that mean nothing, each a token of its own.
type speaker struct {
	dice
	source prompt.Source
	said   uint64
}

func newSpeaker(seed uint64) *speaker {
	words, err := prompt.NewText(seed, prompt.BuiltIn())
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &speaker{dice: newDice(seed, 0), source: words}
}

// words is a text of least to most words.
func (s *speaker) words(least, most int) string {
	s.said++
	return string(s.source.Append(nil, prompt.Spec{Tokens: s.between(least, most), Unique: s.said}))
}

// say is such a text as a JSON string.
func (s *speaker) say(least, most int) string { return `"` + s.words(least, most) + `"` }

// singleTurn is single_turn.jsonl: 150 questions at 30 a second, some of them in several parts or as a system's
// message.
func singleTurn() []byte {
	s := newSpeaker(5)
	var file bytes.Buffer
	for i, at := range poisson(150, 30, 5) {
		fmt.Fprintf(&file, `{"timestamp":%d,`, at/1e6)
		switch i % 10 {
		case 7:
			fmt.Fprintf(&file, `"texts":[%s,%s]`, s.say(5, 40), s.say(5, 40))
		case 8:
			fmt.Fprintf(&file, `"role":"system","text":%s`, s.say(5, 80))
		default:
			fmt.Fprintf(&file, `"text":%s`, s.say(5, 200))
		}
		fmt.Fprintf(&file, `,"output_length":%d}`+"\n", s.between(5, 40))
	}
	return file.Bytes()
}

// multiTurn is multi_turn.jsonl: 30 conversations behind one system prompt, of 1 to 6 turns each. They begin within 5
// s, and their delays are up to 400 ms.
func multiTurn() []byte {
	s := newSpeaker(6)
	system := s.say(60, 60)
	var file bytes.Buffer
	for i, at := range poisson(30, 6, 6) {
		fmt.Fprintf(&file, `{"session_id":"conversation %c%d","turns":[{"role":"system","text":%s}`, 'a'+i%3, i/3, system)
		when := fmt.Sprintf(`"timestamp":%d`, at/1e6)
		for range s.between(1, 6) {
			fmt.Fprintf(&file, `,{%s,"text":%s,"output_length":%d},{"role":"assistant","text":%s}`, when, s.say(3, 60), s.between(5, 60), s.say(5, 60))
			when = fmt.Sprintf(`"delay":%d`, s.between(50, 400))
		}
		file.WriteString("]}\n")
	}
	return file.Bytes()
}

// shareGPT is sharegpt.json: 60 conversations of up to 5 questions, some of which begin with an answer, and some of
// which have none.
func shareGPT() []byte {
	s := newSpeaker(7)
	var file bytes.Buffer
	for i := range 60 {
		fmt.Fprintf(&file, "%c\n  {\"id\":\"%07d_%d\",\"conversations\":[", "[,"[min(i, 1)], s.IntN(1e7), i%4)
		comma := ""
		tell := func(who string, least, most int) {
			fmt.Fprintf(&file, "%s\n    {\"from\":%q,\"value\":%s}", comma, who, s.say(least, most))
			comma = ","
		}
		if i%9 == 4 {
			tell("gpt", 5, 60)
		}
		if i%20 != 13 {
			for range s.between(1, 5) {
				tell("human", 3, 80)
				tell("gpt", 5, 120)
			}
		}
		if i%5 == 2 {
			tell("human", 3, 30)
		}
		file.WriteString("]}")
	}
	file.WriteString("\n]\n")
	return file.Bytes()
}
