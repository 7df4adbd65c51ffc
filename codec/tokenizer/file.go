package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	fast "github.com/fastreplay/fastreplay/codec/json"
)

// Limits on a file. The largest tokenizer.json of a public model, Gemma 3's, has 33 MB and 262,144 pieces.
const (
	maxFileBytes = 256 << 20
	maxID        = 9999999
	// Limits on what a file may make of a text. In public models the longest added token has some 130 bytes, a text
	// that a component writes 3, and a chain 6 components. The largest part but the model (T5's normalizer) has 0.4 MB.
	maxTextBytes = 256
	maxParts     = 64
	maxPartBytes = 4 << 20
	maxLonger    = 3    // pre-tokenizers that do more than cut; each makes at most 8 bytes of one
	maxSpecial   = 1024 // tokens put before and behind a text
	maxGrowth    = 64   // of a text that is normalized; ALBERT's normalizer makes 33 bytes of each 3 of U+FDFA
)

// LimitError is a part of a tokenizer.json that would make the work on a text unbounded.
type LimitError struct{ what string }

// Error names the part.
func (e *LimitError) Error() string { return e.what + "; is it the model's own tokenizer.json?" }

// atMost panics with a LimitError, for catch, where what has more than the limit.
func atMost(limit, n int, what string) {
	if n > limit {
		panic(&LimitError{fmt.Sprintf("%s: %d, more than %d", what, n, limit)})
	}
}

// catch turns a LimitError into an error.
func catch(err *error) {
	switch met := recover().(type) {
	case nil:
	case *LimitError:
		*err = met
	default:
		panic(met)
	}
}

// fileName is what a model's folder calls its tokenizer.
const fileName = "tokenizer.json"

// errUnsupported marks what a file asks for and this package cannot do.
var errUnsupported = errors.New("not supported; --prompt token-ids needs no tokenizer")

// unsupported names a component and what of it is unknown here.
func unsupported(component, what string) error {
	return fmt.Errorf("%s: %s: %w", component, what, errUnsupported)
}

// file is a tokenizer.json. Its truncation and padding are not applied: they belong to how a caller uses it, and
// servers use neither.
type file struct {
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Model         json.RawMessage `json:"model"`
}

// readFile returns the bytes of the tokenizer.json at path or in the folder path.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf(
			"%w; give a tokenizer.json, a folder with one, or %s or %s",
			withoutPath(err),
			CL100K,
			O200K,
		)
	}
	if info.IsDir() {
		path = filepath.Join(path, fileName)
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("no %s in it (%w); copy the model's there", fileName, withoutPath(err))
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("over %d MB; is it a tokenizer.json?", maxFileBytes>>20)
	}
	return data, err
}

// withoutPath is what went wrong with a file, for callers that name the file.
func withoutPath(err error) error {
	p := (*os.PathError)(nil)
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// parse builds a tokenizer from the bytes of a tokenizer.json.
func parse(data []byte) (h stages, err error) {
	defer catch(&err)
	var f file
	if err := decode(data, &f); err != nil {
		return h, err
	}
	if isNull(f.Model) {
		return h, errors.New("no model in it: want a tokenizer.json as the Hugging Face tokenizers library writes it")
	}
	atMost(maxPartBytes, len(f.Normalizer)+len(f.PreTokenizer)+len(f.PostProcessor), "bytes of its parts but the model")
	for _, t := range f.AddedTokens {
		atMost(maxTextBytes, len(t.Content), "bytes of an added token")
	}
	h.pool = newPool()
	if h.normalizer, err = newNormalizer(f.Normalizer); err != nil {
		return h, err
	}
	if h.preTokenizers, err = newPreTokenizers(f.PreTokenizer); err != nil {
		return h, err
	}
	longer := 0
	for _, p := range h.preTokenizers {
		if _, only := p.(plain); !only {
			longer++
		}
	}
	atMost(maxLonger, longer, "pre_tokenizer: components that do more than cut")
	if err := h.readModel(f.Model); err != nil {
		return h, err
	}
	h.head, h.tail, err = newPostProcessor(f.PostProcessor)
	if err != nil {
		return h, err
	}
	atMost(maxSpecial, len(h.head)+len(h.tail), "post_processor: tokens beside each text")
	h.added = newAddedTokens(f.AddedTokens, h.model.find, h.model.size(), h.normalizer)
	return h, nil
}

// readModel builds the model. What a last ByteLevel would spell is left to a BPE model's look-up of words, which does
// it for new words alone.
func (h *stages) readModel(raw json.RawMessage) error {
	kind, err := modelKind(raw)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	switch kind {
	case "BPE":
		var letters *[256]rune
		n := len(h.preTokenizers)
		if n > 0 {
			last, ok := h.preTokenizers[n-1].(*byteLevel)
			if ok {
				letters = &last.letters
				last.late = true
			}
		}
		m, err := newBPE(raw, letters)
		h.model = m
		return err
	case "Unigram":
		m, err := newUnigram(raw)
		h.model = m
		return err
	}
	return unsupported("model", fmt.Sprintf("type %.40q", kind))
}

// modelKind returns the model's type; old files do not name it.
func modelKind(raw json.RawMessage) (string, error) {
	var m struct {
		Type   string          `json:"type"`
		Merges json.RawMessage `json:"merges"`
		Vocab  json.RawMessage `json:"vocab"`
	}
	if err := decode(raw, &m); err != nil {
		return "", err
	}
	vocab := bytes.TrimSpace(m.Vocab)
	switch {
	case m.Type != "":
		return m.Type, nil
	case !isNull(m.Merges):
		return "BPE", nil
	case len(vocab) > 0 && vocab[0] == '[':
		return "Unigram", nil
	}
	return "", nil
}

// readComponent reads a component's fields into f. It returns its type, and its name for messages, which has that.
func readComponent(what string, raw json.RawMessage, f any) (name, kind string, err error) {
	var c struct {
		Type string `json:"type"`
	}
	if err := decode(raw, &c); err != nil {
		return "", "", fmt.Errorf("%s: %w", what, err)
	}
	name = what + " " + c.Type
	if err := decode(raw, f); err != nil {
		return "", "", fmt.Errorf("%s: %w", name, err)
	}
	return name, c.Type, nil
}

// decode reads JSON; the strings in v do not refer to data.
func decode(data []byte, v any) error {
	err := fast.Unmarshal(data, v)
	switch {
	case err == nil:
		return nil
	case len(data) == 0:
		return errors.New("the file is empty")
	case !json.Valid(data):
		return errors.New("no valid JSON: want a tokenizer.json as the Hugging Face tokenizers library writes it")
	}
	return fmt.Errorf("no tokenizer.json: %.200s", firstLine(err.Error()))
}

// firstLine cuts off the excerpt that the decoder's messages go on with.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// unroll reads the parts of a sequence, which may be sequences themselves.
func unroll[T any](parts []json.RawMessage, read func(json.RawMessage) ([]T, error)) (all []T, err error) {
	for _, raw := range parts {
		some, err := read(raw)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		atMost(maxParts, len(all), "components of a sequence")
	}
	return all, nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}
