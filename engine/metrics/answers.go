package metrics

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// The values of Answers.Mode.
const (
	AnswersFree  = "free"
	AnswersExact = "exact"
)

// Answers is what servers answered in conversations whose prompts are made of tokens, and what of it is in later prompts.
type Answers struct {
	Mode          string `json:"mode"`                  // free: the servers chose the tokens; exact: they were told
	Told          int64  `json:"told_tokens"`           // tokens that the servers were told
	Turns         int64  `json:"carried_turns"`         // turns with a part of the answer before them in their prompts, as recorded
	Carried       int64  `json:"carried_tokens"`        // tokens of answers in these prompts, as recorded
	Prompt        int64  `json:"recorded_input_tokens"` // of all requests
	WrongRequests int64  `json:"wrong_requests"`        // ok requests with tokens other than told
	WrongTokens   int64  `json:"wrong_tokens"`          // these tokens, missing ones too
	First         string `json:"first_wrong"`           // the first of the first such request that ended, in words; "" if there is none
}

// answerCounts is over ok requests.
type answerCounts struct {
	requests, tokens int64
	first            string
}

func (c *answerCounts) add(r *record.Record) {
	if r.WrongTokens == record.None {
		return
	}
	if c.requests == 0 {
		word := func(id int64) string {
			if id == record.None {
				return "no more"
			}
			return fmt.Sprint(id)
		}
		c.first = fmt.Sprintf("row %d, token %d of the answer, from 0: %s came, %s was told", r.Row, r.WrongAt, word(r.WrongGot), word(r.WrongWant))
	}
	c.requests++
	c.tokens += r.WrongTokens
}

// summary adds what was counted to what is known of the run. Without that, as of results on disk, answers are exact if some
// are wrong.
func (c *answerCounts) summary(known *Answers) *Answers {
	if known == nil && c.requests == 0 {
		return nil
	}
	a := Answers{Mode: AnswersExact}
	if known != nil {
		a = *known
	}
	a.WrongRequests, a.WrongTokens, a.First = c.requests, c.tokens, c.first
	return &a
}

// answerNotes says what the answers do to hits.
func answerNotes(s *Summary) []string {
	a := s.Answers
	if a == nil || a.Carried == 0 {
		return nil
	}
	share := "?"
	if part := ratio(a.Carried, a.Prompt); part != nil {
		share = format.Percent(*part)
	}
	carried := fmt.Sprintf("%s of earlier answers, %s of the input, are in the prompts of %s as recorded", format.Many(a.Carried, "token"), share, format.Many(a.Turns, "follow-up turn"))
	if a.Mode == AnswersExact {
		return []string{carried + ": the servers were told to answer them, so caches can hit them, and expected hits count them"}
	}
	return []string{carried + ": answers were free, so no cache can hit them, and expected hits leave them out (--api vllm-generate --answers exact tells a server its answers; " +
		"--history live, for a trace with messages, carries what it answered)"}
}
