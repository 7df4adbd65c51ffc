package prompt

// Answer describes the tokens that a server is to answer. They begin as another prompt goes on, such as that of the
// next turn, in which the answer stands. The others belong to the answer alone.
type Answer struct {
	// Text is the other prompt up to where the two part. What it has before From is the prompt that is answered.
	Text Spec
	From int
	// Tokens is the length of the answer.
	Tokens int
	// Own is the key of the tokens beyond Text: answers with different keys share none of them, and no prompt has them.
	Own uint64
}

// AnswerSize returns how many bytes AppendAnswer adds.
func (t *TokenIDs) AnswerSize(a Answer) int { return max(0, a.Tokens*t.slotWidth()-1) }

// slotWidth is the width of a token with its comma: all have the same.
func (t *TokenIDs) slotWidth() int { return t.columns[0].width }

// AppendAnswer adds an answer's tokens, "10234,29311", to dst and returns the longer slice.
func (t *TokenIDs) AppendAnswer(dst []byte, a Answer) []byte {
	for k := range a.Tokens {
		slot := t.slotOf(&a, k)
		for i := range t.slotWidth() {
			if k > 0 || i > 0 {
				dst = append(dst, byte(slot>>(8*i)))
			}
		}
	}
	return dst
}

// AnswerToken returns the id of an answer's token k, from 0 on and below a.Tokens. It allocates nothing.
func (t *TokenIDs) AnswerToken(a *Answer, k int) (id int) {
	slot := t.slotOf(a, k) >> 8 // without the comma
	for range t.slotWidth() - 1 {
		id = id*10 + int(byte(slot)-'0')
		slot >>= 8
	}
	return id
}

// slotOf is the table's entry of an answer's token k.
func (t *TokenIDs) slotOf(a *Answer, k int) uint64 {
	key := t.keys.ofAnswer(a.Own)
	at := k
	if shared := a.Text.Tokens - a.From; k < shared {
		key, at = t.runOf(&a.Text, a.From+k)
	} else {
		at = k - max(0, shared)
	}
	j := at % columns
	return pick(t.columns[j].slots, draw(key, uint64(at/columns))>>(j*drawBits))
}

// runOf is the key of the run that token p of a prompt is in, and its place there.
func (w *writer) runOf(s *Spec, p int) (key uint64, at int) {
	blocks, partial, _ := s.Split()
	if partial > 0 {
		blocks++
	}
	if blocks > 0 && p/s.BlockTokens < blocks {
		return w.keys.ofBlock(s.Blocks[p/s.BlockTokens]), p % s.BlockTokens
	}
	return w.keys.ofUnique(s.Unique), p - blocks*max(0, s.BlockTokens)
}
