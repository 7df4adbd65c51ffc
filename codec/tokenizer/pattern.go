package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// pattern finds matches in a text, as pairs of byte offsets, in order and
// without overlaps.
type pattern interface {
	find(text string) [][]int
}

// literal matches itself; the empty one nothing.
type literal string

func (l literal) find(text string) [][]int {
	var f found
	for from := 0; l != ""; {
		at := strings.Index(text[from:], string(l))
		if at < 0 {
			break
		}
		f.add(from+at, from+at+len(l))
		from += at + len(l)
	}
	return f.matches
}

// found collects matches without an allocation for each.
type found struct {
	matches [][]int
	flat    []int
}

func (f *found) add(from, end int) {
	f.flat = append(f.flat, from, end)
	n := len(f.flat)
	f.matches = append(f.matches, f.flat[n-2:n:n])
}

// class matches single characters; with runs, runs of them.
type class struct {
	holds func(rune) bool
	runs  bool
}

func (c class) find(text string) [][]int {
	var f found
	for at, r := range text {
		if !c.holds(r) {
			continue
		}
		end := at + utf8.RuneLen(r)
		if n := len(f.matches); c.runs && n > 0 && f.matches[n-1][1] == at {
			f.matches[n-1][1] = end
			continue
		}
		f.add(at, end)
	}
	return f.matches
}

// expression is a regular expression. Look-ahead, which most models' patterns
// use, is beyond Go's own package.
type expression struct{ re *regexp2.Regexp }

func (e expression) find(text string) [][]int {
	matches, err := e.re.FindAllStringIndex(text, -1)
	if err != nil {
		panic(&LimitError{fmt.Sprintf("the pattern %.80q takes more than %v to find one match", e.re, maxMatchTime)})
	}
	return matches
}

// maxMatchTime is how long the search for one match may take: a pattern with nested repetitions may take forever.
const maxMatchTime = 10 * time.Second

// newExpression compiles a pattern written for Oniguruma with Ruby's syntax,
// which the reference uses.
func newExpression(source string) (expression, error) {
	translated, err := translate(source)
	if err != nil {
		return expression{}, fmt.Errorf("pattern %.80q: %w", source, err)
	}
	re, err := regexp2.Compile(translated, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return expression{}, unsupported(fmt.Sprintf("pattern %.80q", source), firstLine(err.Error()))
	}
	re.MatchTimeout = maxMatchTime
	return expression{re}, nil
}

// newPattern reads {"String": …} or {"Regex": …}.
func newPattern(component string, raw json.RawMessage) (pattern, error) {
	var p struct{ String, Regex *string }
	if err := decode(raw, &p); err != nil {
		return nil, fmt.Errorf("%s: pattern: %w", component, err)
	}
	switch {
	case p.String != nil:
		return literal(*p.String), nil
	case p.Regex != nil:
		e, err := newExpression(*p.Regex)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", component, err)
		}
		return e, nil
	}
	return nil, fmt.Errorf(`%s: %w`, component, errors.New(`pattern: want {"String": …} or {"Regex": …}`))
}
