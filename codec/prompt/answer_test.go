package prompt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// idsOf are the ids of what a source has written.
func idsOf(t *testing.T, text []byte) (ids []int) {
	t.Helper()
	for _, word := range strings.FieldsFunc(string(text), func(c rune) bool { return c == ',' }) {
		id := must.Have(strconv.Atoi(word))(t)
		ids = append(ids, id)
	}
	return ids
}

// TestAnswersContinuePrompts: a prompt with its answer is the text that both come from, token for token as that is
// written, and what goes beyond the text is the answer's own.
func TestAnswersContinuePrompts(t *testing.T) {
	source := must.Have(NewTokenIDs(7, BuiltInIDs()))(t)
	r := rand.New(rand.NewPCG(1, 2))
	own := map[string]bool{}
	for n := range 400 {
		s := Spec{BlockTokens: []int{0, 1, 3, 16, 64}[r.IntN(5)], Tokens: 1 + r.IntN(300), Unique: uint64(n)}
		for range r.IntN(8) {
			s.Blocks = append(s.Blocks, r.Uint64())
		}
		a := Answer{Text: s, From: r.IntN(s.Tokens + 1), Tokens: r.IntN(200), Own: uint64(n)}
		whole := idsOf(t, source.Append(nil, s))
		text := source.AppendAnswer(nil, a)
		got := idsOf(t, text)
		shared := min(a.Tokens, s.Tokens-a.From)
		if len(got) != a.Tokens || len(text) != source.AnswerSize(a) || !slices.Equal(got[:shared], whole[a.From:a.From+shared]) {
			t.Fatalf("%+v: %v does not go on as %v", a, got, whole)
		}
		for k, id := range got {
			must.Equal(t, source.AnswerToken(&a, k), id, "%+v: token %d", a, k)
		}
		if rest := got[shared:]; len(rest) >= 4 {
			if key := fmt.Sprint(rest[:4]); own[key] {
				t.Errorf("%v begins two answers", rest[:4])
			} else {
				own[key] = true
			}
		}
	}
	a := Answer{Text: Spec{Blocks: []uint64{1, 2}, BlockTokens: 16, Tokens: 40}, From: 5, Tokens: 50}
	expect.Equal(t, testing.AllocsPerRun(100, func() { source.AnswerToken(&a, 20) }), 0, "allocations")
}
