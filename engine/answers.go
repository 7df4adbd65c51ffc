package engine

import (
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// forcedTokens compares the tokens of an answer, one after the other, with those that the server was told to make. It
// belongs to one receiver and allocates nothing. The zero value compares nothing.
type forcedTokens struct {
	answers *workload.Answers // nil = the answer is free
	want    prompt.Answer
	seen    int // tokens of the answer that came
}

// begin is called before the answer to request i.
func (c *forcedTokens) begin(w *workload.Work, i int32) {
	want, forced := w.AnswerOf(int(i))
	*c = forcedTokens{want: want}
	if forced {
		c.answers = w.Answers
	}
}

// take compares the ids of an event, or of a whole answer.
func (c *forcedTokens) take(ids []byte, rec *record.Record) {
	if c.answers == nil {
		return
	}
	for id, rest, ok := api.NextID(ids); ok; id, rest, ok = api.NextID(rest) {
		want := int64(record.None) // beyond the end
		if c.seen < c.want.Tokens {
			want = int64(c.answers.Token(&c.want, c.seen))
		}
		if int64(id) != want {
			c.wrong(rec, 1, int64(id), want)
		}
		c.seen++
	}
}

// end counts what did not come of an answer that has ended ok.
func (c *forcedTokens) end(rec *record.Record) {
	if c.answers == nil || c.seen >= c.want.Tokens {
		return
	}
	missing := c.want.Tokens - c.seen
	c.wrong(rec, int64(missing), record.None, int64(c.answers.Token(&c.want, c.seen)))
	c.seen = c.want.Tokens
}

// wrong notes so many tokens from the next one on, and the first of all.
func (c *forcedTokens) wrong(rec *record.Record, n, got, want int64) {
	if rec.WrongTokens == record.None {
		rec.WrongTokens = 0
		rec.WrongAt = int64(c.seen)
		rec.WrongGot = got
		rec.WrongWant = want
	}
	rec.WrongTokens += n
}
