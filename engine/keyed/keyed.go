// Package keyed makes a trace that can be handed out of a log with text: in place of prompts and answers it has ids of
// their blocks, which nobody can look up without the key, and in place of names pseudonyms.
//
// It owns what becomes of a request, which sessions are found where none are recorded, and the head that says all that.
// It does not own the hash, nor the formats. It works on its caller's goroutine, and keeps the tokens of at most 64 MB
// of text.
package keyed

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/blockhash"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/chatml"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
)

const (
	// bytesAToken is how many bytes of text are taken for a token if there is no tokenizer.
	bytesAToken = 4
	// cachedTextBytes bounds the pieces of text whose tokens are kept: turns repeat what was said before.
	cachedTextBytes = 64 << 20
)

// Options are how text becomes ids.
type Options struct {
	Tokenizer string // as for [tokenizer.Open]; "" = none
	Lenient   bool   // leave out requests without one whole prompt, and count them, instead of an error
	Version   string // of the program, for the head
}

// hasher turns the requests of a trace into ids.
type hasher struct {
	Options
	key    blockhash.Key
	t      *trace.Trace
	tok    *tokenizer.Tokenizer // nil = none
	chain  *blockhash.Chain
	tokens map[string][]int32 // of pieces of text
	cached int                // their bytes
	head   trace.Head
	order  []int32
	all    []trace.Hashed
	guess  guesser
	told   int64 // tokens of prompts, as servers told them
	hashed int64 // of the same prompts, as they were counted here
}

// Hash returns the trace with ids in place of text, and lines for people on what they should know of it. The key is in
// a file, which [blockhash.OpenKey] describes; "" = one is drawn, and thrown away.
func Hash(t *trace.Trace, keyFile string, o Options) (*trace.Trace, []string, error) {
	key := blockhash.NewKey()
	if keyFile != "" {
		var err error
		key, err = blockhash.OpenKey(keyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("--key-file: %w", err)
		}
	}
	h := &hasher{
		Options: o,
		key:     key,
		t:       t,
		tokens:  map[string][]int32{},
	}
	if err := h.begin(); err != nil {
		return nil, nil, err
	}
	h.guess = guesser{
		chain: h.chain,
		ends:  map[uint64][]end{},
		first: map[int]int{},
		size:  map[int]int{},
	}
	for i := range t.Len() {
		lost, err := h.take(i)
		if err != nil && !o.Lenient {
			return nil, nil, fmt.Errorf("row %d of %s: %w; %s, or leave such rows out with --bad-rows drop", t.Row[i],
				t.Name, err, rows.FixOf(err))
		}
		if lost != "" {
			h.head.Lost[lost]++
		}
	}
	if len(h.all) == 0 {
		return nil, nil, fmt.Errorf("no row of %s has both a prompt and an answer of known length (lost: %s): ids "+
			"need text, and a file of a batch's answers must be given before that of its requests", t.Name,
			h.head.LostWords())
	}
	h.nameSessions()
	var scopes agents.Scopes
	for _, row := range h.all {
		if !key.Kept { // by their first appearance
			scopes.Renumber("", row.IDs)
			scopes.Renumber("", row.AnswerIDs)
		}
	}
	return t.Hashed(h.order, h.all, h.head), h.notes(), nil
}

// begin opens the tokenizer and begins the head.
func (h *hasher) begin() error {
	h.head = trace.Head{
		Mode:      trace.KeyedMode,
		Hash:      blockhash.Hash,
		KeyID:     h.key.ID(),
		Scope:     trace.FileScope,
		BlockSize: blockhash.BlockTokens,
		Chained:   true,
		Unit:      fmt.Sprintf("%d bytes", bytesAToken),
		TimeUnit:  "ms",
		Version:   h.Version,
		Dropped:   []string{"text", "tools", "names", "models", "parameters", "headers", "dependencies"},
		Lost: map[string]int{
			"malformed":  h.t.Lint.Dropped,
			"failed":     h.t.Lint.Failed,
			"unanswered": h.t.Lint.Unanswered,
		},
		ChatTemplate: chatml.Name,
	}
	if h.key.Kept {
		h.head.Scope = trace.EpochScope
	}
	if h.Tokenizer != "" {
		tok, err := tokenizer.Open(h.Tokenizer)
		if err != nil {
			return fmt.Errorf("--tokenizer %s: %w", h.Tokenizer, err)
		}
		h.tok = tok
		h.head.Unit = "token"
		h.head.Tokenizer, err = digestOf(h.Tokenizer)
		if err != nil {
			return fmt.Errorf("--tokenizer: %w", err)
		}
	}
	h.chain = h.key.Chain(h.head.Unit + "\x00" + h.head.Tokenizer + "\x00" + chatml.Name)
	return nil
}

// digestOf names a tokenizer by what is in its file: the path would tell of the machine.
func digestOf(name string) (string, error) {
	if name == tokenizer.CL100K || name == tokenizer.O200K {
		return name, nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, "tokenizer.json")
	}
	data, err := os.ReadFile(name)
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data)), err
}

// take turns request i into ids. It says why the request is lost; "" = it is not. The error is of a prompt that is not
// whole.
func (h *hasher) take(i int) (lost string, err error) {
	v := h.t.Verbatim(i)
	if v.Kind == trace.NoVerbatim {
		return "without_text", nil
	}
	p, err := chatml.Of(v)
	if err != nil {
		return "malformed", err
	}
	prompt := p.Tokens
	for _, piece := range p.Pieces {
		if prompt, err = h.append(prompt, piece); err != nil {
			return "malformed", err
		}
	}
	if len(prompt) == 0 || len(prompt) > rows.MaxTokens {
		return "malformed", rows.Bad(fmt.Sprintf("a prompt of %d tokens", len(prompt)),
			fmt.Sprintf("it must have 1 to %d", rows.MaxTokens))
	}
	var answer []int32
	if (h.tok != nil || len(p.Tokens) == 0) && h.t.Answer(i) != nil {
		if answer, err = h.append(nil, string(rows.AppendUnquoted(nil, h.t.Answer(i)))); err != nil {
			return "malformed", err
		}
	}
	output := int(h.t.OutputTokens[i])
	if output == 0 {
		output = len(answer)
	}
	if output == 0 || output > rows.MaxTokens {
		return "unanswered", nil
	}
	if told := h.t.InputTokens[i]; told > 0 {
		h.told += int64(told)
		h.hashed += int64(len(prompt))
	}
	h.head.NotText += p.NotText
	ids := h.chain.Append(nil, prompt)
	whole := len(prompt) / blockhash.BlockTokens
	all := slices.Concat(prompt, answer[:min(len(answer), output)])
	all = all[:len(all)/blockhash.BlockTokens*blockhash.BlockTokens]
	row := trace.Hashed{
		InputTokens:  int32(len(prompt)),
		OutputTokens: int32(output),
		IDs:          ids,
		Session:      h.session(i),
	}
	if known := h.chain.Append(slices.Clone(ids[:whole]), all); len(known) > whole {
		row.AnswerIDs = known[whole:]
	}
	if row.Session == "" {
		h.guess.take(len(h.all), prompt, ids)
	}
	h.order = append(h.order, int32(i))
	h.all = append(h.all, row)
	return "", nil
}

// append appends the tokens of a piece of text.
func (h *hasher) append(tokens []int32, piece string) ([]int32, error) {
	if h.tok == nil {
		return appendBytes(tokens, piece), nil
	}
	known, ok := h.tokens[piece]
	if !ok {
		var err error
		known, err = h.tok.Append(nil, piece, false)
		if err != nil {
			return tokens, err
		}
		h.cached += len(piece)
		if h.cached > cachedTextBytes {
			clear(h.tokens)
			h.cached = len(piece)
		}
		h.tokens[piece] = known
	}
	return append(tokens, known...), nil
}

// appendBytes appends each so many bytes of a piece as if they were a token. The last ones are filled with a byte that
// no text has.
func appendBytes(tokens []int32, piece string) []int32 {
	for chunk := range slices.Chunk([]byte(piece), bytesAToken) {
		var token [bytesAToken]byte
		for k := copy(token[:], chunk); k < bytesAToken; k++ {
			token[k] = 0xff
		}
		tokens = append(tokens, int32(binary.BigEndian.Uint32(token[:])))
	}
	return tokens
}

// session is the pseudonym of request i's recorded session; "" = it has none.
func (h *hasher) session(i int) string {
	if h.t.Session == nil || h.t.Session[i] < 0 {
		return ""
	}
	name := h.t.SessionName(i)
	if name == "" {
		name = strconv.FormatInt(h.t.Session[i], 10)
	}
	return h.key.Pseudonym("session", name)
}

// nameSessions names the sessions that were found, of several requests each.
func (h *hasher) nameSessions() {
	once := blockhash.NewKey() // no other file may have such a name
	recorded, guessed := 0, 0
	for n := range h.all {
		row := &h.all[n]
		first := h.guess.first[n]
		switch {
		case row.Session != "":
			recorded++
		case h.guess.size[first] > 1:
			row.Session = once.Pseudonym("guessed", strconv.Itoa(first))
			row.Guessed = true
			guessed++
		}
	}
	h.head.Sessions = fmt.Sprintf("%d rows recorded, %d guessed", recorded, guessed)
}

// notes are what people should know.
func (h *hasher) notes() (all []string) {
	if h.tok == nil {
		all = append(all, fmt.Sprintf("without --tokenizer each %d bytes of text count as a token: what prompts share "+
			"is right to %d bytes, and their lengths are not the server's", bytesAToken,
			bytesAToken*blockhash.BlockTokens))
	}
	if off := h.hashed - h.told; h.told > 0 && off != 0 && h.tok != nil {
		all = append(all, fmt.Sprintf("prompts have %s tokens here, and %s as the servers told (%+.1f %%): the "+
			"server's chat template is not %s, or its tokenizer another one", format.Count(h.hashed),
			format.Count(h.told), 100*float64(off)/float64(h.told), chatml.Name))
	}
	if words := h.head.LostWords(); words != "none" {
		all = append(all, "rows lost, as the head says: "+words)
	}
	if h.head.NotText > 0 {
		all = append(all, format.Many(int64(h.head.NotText), "part")+" of prompts are no text, such as images: each "+
			"counts as a digest")
	}
	return all
}
