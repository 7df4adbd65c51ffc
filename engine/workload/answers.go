package workload

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// Answers are the tokens that servers are told to answer. So the prompt of a turn really begins with the prompt and the
// answer of the turn before.
//
// A row has ids of whole blocks, and perhaps one of its last block, which is not full. What it has beyond its whole
// blocks is taken from the turn that goes on from it. So is its answer, as far as that turn's prompt reaches. That
// turn's own end comes from the one after it, and so on. So all prompts of a conversation begin one text. Without a
// next turn, and where the ids disagree, the tokens are the row's own.
type Answers struct {
	source *prompt.TokenIDs
	next   []int32 // the turn that goes on from each; trace.NoTurn = none
}

// TellAnswers makes prompts and answers of the work go on in each other. The source is that of the prompts. It must be
// called before requests are laid out.
func (w *Work) TellAnswers(source *prompt.TokenIDs) {
	w.Answers = &Answers{
		source: source,
		next:   w.nextTurns(),
	}
}

// nextTurns returns the turn that goes on from each request, trace.NoTurn if none does. Of several it is the one that
// has most of the answer, and of these the first.
func (w *Work) nextTurns() []int32 {
	next := slices.Repeat([]int32{trace.NoTurn}, w.Requests())
	graph := w.Trace.Graph(w.Requests())
	for j := range w.Requests() {
		for _, wait := range graph.Of(j) {
			i := int(wait.On)
			if wait.Relation != trace.Sequence || !w.goesOn(i, j) {
				continue
			}
			best := next[i]
			if best == trace.NoTurn || w.answerShared(i, j) > w.answerShared(i, int(best)) {
				next[i] = int32(j)
			}
		}
	}
	return next
}

// goesOn reports whether request j's prompt begins with that of i, as far as whole blocks tell, and is longer.
func (w *Work) goesOn(i, j int) bool {
	made := w.Made(i) && w.Made(j)
	if !made || w.PromptTokens(j) <= w.PromptTokens(i) {
		return false
	}
	whole := w.Trace.Blocks(i)[:w.wholeBlocks(i)]
	ids := w.Trace.Blocks(j)
	if len(ids) == 0 || len(ids) < len(whole) {
		return false
	}
	return slices.Equal(whole, ids[:len(whole)])
}

// wholeBlocks is how many whole blocks of request i's prompt have ids.
func (w *Work) wholeBlocks(i int) int {
	ids := w.Trace.Blocks(i)
	whole := w.PromptTokens(i) / max(1, w.Trace.BlockTokens)
	return min(len(ids), whole)
}

// answerShared is how many tokens of request i's answer are in the prompt of j, which goes on from it. If the trace has
// ids of the answer's blocks, it is not in j's prompt from where the ids differ.
func (w *Work) answerShared(i, j int) int {
	prompt := w.PromptTokens(i)
	shared := min(w.PromptTokens(j)-prompt, int(w.Trace.OutputTokens[i]))
	whole := prompt / max(1, w.Trace.BlockTokens)
	for k, id := range w.Trace.AnswerBlocks(i) {
		ids := w.Trace.Blocks(j)
		if whole+k < len(ids) && ids[whole+k] != id {
			shared = min(shared, (whole+k)*w.Trace.BlockTokens-prompt)
			break
		}
	}
	return max(0, shared)
}

// Carried is how many tokens of answers are in the prompts of next turns as recorded, and in how many turns.
func (w *Work) Carried() (tokens, turns int64) {
	var next []int32
	if w.Answers != nil {
		next = w.Answers.next
	} else {
		next = w.nextTurns()
	}
	for i, j := range next {
		if j == trace.NoTurn {
			continue
		}
		shared := w.answerShared(i, int(j))
		if shared > 0 {
			tokens += int64(shared)
			turns++
		}
	}
	return tokens, turns
}

// specOf is what the prompt of request i is made of.
func (w *Work) specOf(i int) prompt.Spec {
	return w.textOf(i, w.PromptTokens(i))
}

// textOf returns the spec of the first tokens of the text that the prompt of request i begins. There must be as many in
// that prompt, or in that of its next turn.
func (w *Work) textOf(i, tokens int) prompt.Spec {
	s := prompt.Spec{
		Blocks:      w.Trace.Blocks(i),
		BlockTokens: w.Trace.BlockTokens,
		Tokens:      tokens,
		Unique:      w.Trace.Unique(i),
	}
	if w.Answers == nil {
		return s
	}
	for w.Answers.next[i] != trace.NoTurn {
		whole := w.wholeBlocks(i)
		if whole*s.BlockTokens >= tokens {
			s.Blocks = w.Trace.Blocks(i)[:whole]
			return s
		}
		i = int(w.Answers.next[i])
		s.Blocks = w.Trace.Blocks(i)
		s.Unique = w.Trace.Unique(i)
	}
	return s
}

// AnswerOf is what request i is to be answered; ok is false if that is free.
func (w *Work) AnswerOf(i int) (a prompt.Answer, ok bool) {
	if w.Answers == nil || !w.Made(i) || w.Trace.OutputTokens[i] <= 0 {
		return a, false
	}
	a = prompt.Answer{
		From:   w.PromptTokens(i),
		Tokens: int(w.Trace.OutputTokens[i]),
		Own:    w.Trace.Unique(i),
	}
	j := w.Answers.next[i]
	if j != trace.NoTurn {
		shared := w.answerShared(i, int(j))
		a.Text = w.textOf(i, a.From+shared)
	}
	return a, true
}

// Token is token k of an answer that AnswerOf has returned.
func (a *Answers) Token(of *prompt.Answer, k int) int {
	return a.source.AnswerToken(of, k)
}

// uniqueBlock marks ids of blocks that no row has: those of the end of a conversation, in which the turns before end
// too.
const uniqueBlock = 0x9e3779b97f4a7c15

// cacheBlocks are the blocks of a text as caches know them. The tokens behind the ids of the last turn of a
// conversation have ids of their own. Earlier prompts and answers may reach into them.
func (w *Work) cacheBlocks(s prompt.Spec) []uint64 {
	named := len(s.Blocks) * s.BlockTokens
	if w.Answers == nil || s.BlockTokens <= 0 || named >= s.Tokens {
		return s.Blocks
	}
	ids := slices.Clone(s.Blocks)
	for k := len(ids); k*s.BlockTokens < s.Tokens; k++ {
		id := (s.Unique*uniqueBlock+uint64(k))*uniqueBlock ^ uniqueBlock>>1
		ids = append(ids, id)
	}
	return ids
}
