// Package keyed makes, of a log with text, a trace that can be handed out. In place of prompts and answers it has ids
// of their blocks, which nobody can look up without the key. In place of names it has pseudonyms.
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

	"github.com/fastreplay/fastreplay/codec/blockhash"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
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
	Tokenizer string   // as for [tokenizer.Open]; "" = none
	Lenient   bool     // leave out requests without one whole prompt, and count them, instead of an error
	Version   string   // of the program, for the head
	Keep      []string // of the form FIELD[=HEADER][:plain], see [Keep]
}

// Hasher turns the requests of traces into ids. It belongs to one goroutine.
type Hasher struct {
	// Head is that of the file that the rows are for. Whoever writes it may count in Lost what he loses himself.
	Head  trace.Head
	Keeps []Keep // of the options, which nobody changes

	o        Options
	key      blockhash.Key
	tok      *tokenizer.Tokenizer // nil = none
	chain    *blockhash.Chain
	tokens   map[string][]int32 // of pieces of text
	cached   int                // their bytes
	guess    guesser
	rows     int   // so far
	recorded int   // of them, those with a session that is recorded
	told     int64 // tokens of prompts, as servers told them
	hashed   int64 // of the same prompts, as they were counted here
}

// Open returns a Hasher at the beginning of a file. The key is in a file, which [blockhash.OpenKey] describes; "" = one
// is drawn, and thrown away.
func Open(keyFile string, o Options) (*Hasher, error) {
	h := &Hasher{
		o:      o,
		tokens: map[string][]int32{},
		Head: trace.Head{
			Mode:         trace.KeyedMode,
			Hash:         blockhash.Hash,
			Scope:        trace.FileScope,
			BlockSize:    blockhash.BlockTokens,
			Chained:      true,
			Unit:         fmt.Sprintf("%d bytes", bytesAToken),
			TimeUnit:     "ms",
			Version:      o.Version,
			Dropped:      []string{"text", "tools", "names", "models", "parameters", "headers", "dependencies"},
			ChatTemplate: chatml.Name,
		},
	}
	keeps, err := parseKeeps(o.Keep)
	if err != nil {
		return nil, err
	}
	h.Keeps = keeps
	for _, k := range keeps {
		h.Head.Kept = append(h.Head.Kept, k.Field)
	}
	if keyFile != "" {
		key, err := blockhash.OpenKey(keyFile)
		if err != nil {
			return nil, fmt.Errorf("--key-file: %w", err)
		}
		h.key = key
		h.Head.Scope = trace.EpochScope
	}
	if err := h.openTokenizer(); err != nil {
		return nil, err
	}
	h.Begin()
	return h, nil
}

// Begin begins another file. Its key is drawn unless it is kept, and its sessions are none of the file before.
func (h *Hasher) Begin() {
	if !h.key.Kept {
		h.key = blockhash.NewKey()
	}
	h.chain = h.key.Chain(h.Head.Unit + "\x00" + h.Head.Tokenizer + "\x00" + chatml.Name)
	h.Head.KeyID = h.key.ID()
	h.Head.Lost = map[string]int{}
	h.Head.NotText = 0
	h.rows = 0
	h.recorded = 0
	h.guess = guesser{
		once:  blockhash.NewKey(), // no other file may have the name of a guessed session
		chain: h.chain,
		ends:  map[uint64][]end{},
	}
}

// Hash returns the trace with ids in place of text, and lines for people on what they should know of it. The key is as
// for [Open].
func Hash(t *trace.Trace, keyFile string, o Options) (*trace.Trace, []string, error) {
	h, err := Open(keyFile, o)
	if err != nil {
		return nil, nil, err
	}
	order, all, err := h.hash(t)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("no row of %s has both a prompt and an answer of known length (lost: %s): ids "+
			"need text, and a file of a batch's answers must be given before that of its requests", t.Name,
			h.Head.LostWords())
	}
	h.nameSessions(all)
	if !h.key.Kept {
		trace.Renumber(all)
	}
	return t.Hashed(order, all, h.Head), h.notes(), nil
}

// Next returns further requests of the file with ids in place of text. A session that is not recorded is named before
// it is known whether other requests are of it.
func (h *Hasher) Next(t *trace.Trace) (*trace.Trace, error) {
	first := h.rows
	order, all, err := h.hash(t)
	if err != nil {
		return nil, err
	}
	for n := range all {
		if row := &all[n]; row.Session == "" {
			row.Session = h.guess.name(first + n)
			row.Guessed = true
		}
	}
	h.countSessions(h.rows - h.recorded)
	return t.Hashed(order, all, h.Head), nil
}

// hash turns requests into ids. It returns which of them it did, and counts the others in the head.
func (h *Hasher) hash(t *trace.Trace) (order []int32, all []trace.Hashed, err error) {
	t.Lint.CountLost(&h.Head)
	for i := range t.Len() {
		row, lost, err := h.take(t, i)
		switch {
		case err != nil && !h.o.Lenient:
			return nil, nil, fmt.Errorf("row %d of %s: %w; %s, or leave such rows out with --bad-rows drop", t.Row[i],
				t.Name, err, rows.FixOf(err))
		case lost != "":
			h.Head.Lost[lost]++
		default:
			order = append(order, int32(i))
			all = append(all, row)
		}
	}
	return order, all, nil
}

// openTokenizer opens the one that is asked for.
func (h *Hasher) openTokenizer() error {
	name := h.o.Tokenizer
	if name == "" {
		return nil
	}
	tok, err := tokenizer.Open(name)
	if err != nil {
		return fmt.Errorf("--tokenizer %s: %w", name, err)
	}
	h.tok = tok
	h.Head.Unit = "token"
	h.Head.Tokenizer, err = digestOf(name)
	if err != nil {
		return fmt.Errorf("--tokenizer: %w", err)
	}
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
func (h *Hasher) take(t *trace.Trace, i int) (row trace.Hashed, lost string, err error) {
	v := t.Verbatim(i)
	if v.Kind == trace.NoVerbatim {
		return row, "without_text", nil
	}
	p, err := chatml.Of(v)
	if err != nil {
		return row, "malformed", err
	}
	prompt := p.Tokens
	for _, piece := range p.Pieces {
		if prompt, err = h.append(prompt, piece); err != nil {
			return row, "malformed", err
		}
	}
	if len(prompt) == 0 || len(prompt) > rows.MaxTokens {
		return row, "malformed", rows.Bad(fmt.Sprintf("a prompt of %d tokens", len(prompt)),
			fmt.Sprintf("it must have 1 to %d", rows.MaxTokens))
	}
	var answer []int32
	if (h.tok != nil || len(p.Tokens) == 0) && t.Answer(i) != nil {
		if answer, err = h.append(nil, string(rows.AppendUnquoted(nil, t.Answer(i)))); err != nil {
			return row, "malformed", err
		}
	}
	output := int(t.OutputTokens[i])
	if output == 0 {
		output = len(answer)
	}
	if output == 0 || output > rows.MaxTokens {
		return row, "unanswered", nil
	}
	if told := t.InputTokens[i]; told > 0 {
		h.told += int64(told)
		h.hashed += int64(len(prompt))
	}
	h.Head.NotText += p.NotText
	ids := h.chain.Append(nil, prompt)
	whole := len(prompt) / blockhash.BlockTokens
	all := slices.Concat(prompt, answer[:min(len(answer), output)])
	all = all[:len(all)/blockhash.BlockTokens*blockhash.BlockTokens]
	row = trace.Hashed{
		InputTokens:  int32(len(prompt)),
		OutputTokens: int32(output),
		IDs:          ids,
		Session:      h.session(t, i),
	}
	row.Owner, row.Extra = h.keep(t, i)
	if known := h.chain.Append(slices.Clone(ids[:whole]), all); len(known) > whole {
		row.AnswerIDs = known[whole:]
	}
	if row.Session == "" {
		h.guess.take(h.rows, prompt, ids)
	} else {
		h.recorded++
	}
	h.rows++
	return row, "", nil
}

// append appends the tokens of a piece of text.
func (h *Hasher) append(tokens []int32, piece string) ([]int32, error) {
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
func (h *Hasher) session(t *trace.Trace, i int) string {
	name, recorded := t.Conversation(i)
	if !recorded {
		return ""
	}
	return h.key.Pseudonym("session", name)
}

// nameSessions names the sessions that were found, of several requests each.
func (h *Hasher) nameSessions(all []trace.Hashed) {
	guessed := 0
	for n := range all {
		row := &all[n]
		if row.Session == "" && h.guess.size[h.guess.first[n]] > 1 {
			row.Session = h.guess.name(n)
			row.Guessed = true
			guessed++
		}
	}
	h.countSessions(guessed)
}

func (h *Hasher) countSessions(guessed int) {
	h.Head.Sessions = fmt.Sprintf("%d rows recorded, %d guessed", h.recorded, guessed)
}

// notes are what people should know.
func (h *Hasher) notes() (all []string) {
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
	if words := h.Head.LostWords(); words != "none" {
		all = append(all, "rows lost, as the head says: "+words)
	}
	if h.Head.NotText > 0 {
		all = append(all, format.Many(h.Head.NotText, "part")+" of prompts are no text, such as images: each "+
			"counts as a digest")
	}
	return all
}
