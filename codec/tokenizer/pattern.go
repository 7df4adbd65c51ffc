package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// pattern finds matches in a text, as pairs of byte offsets, in order and without overlaps.
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
		n := len(f.matches)
		if c.runs && n > 0 && f.matches[n-1][1] == at {
			f.matches[n-1][1] = end
			continue
		}
		f.add(at, end)
	}
	return f.matches
}

// expression is a regular expression. Look-ahead, which most models' patterns use, is beyond Go's own package.
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

// newExpression compiles a pattern written for Oniguruma with Ruby's syntax, which the reference uses.
func newExpression(source string) (expression, error) {
	translated, err := translate(source)
	if err != nil {
		return expression{}, fmt.Errorf("pattern %.80q: %w", source, err)
	}
	e, err := compile(translated)
	if err != nil {
		return e, unsupported(fmt.Sprintf("pattern %.80q", source), firstLine(err.Error()))
	}
	return e, nil
}

// compile compiles a pattern in the syntax of .NET.
func compile(pattern string) (expression, error) {
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return expression{}, err
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
	return nil, fmt.Errorf(`%s: pattern: want {"String": …} or {"Regex": …}`, component)
}

// wordClass is Oniguruma's \w: Alphabetic, Mark, Decimal_Number and Connector_Punctuation, for use inside a class. What
// is alphabetic without being a letter, mark or letter number are the circled and squared letters.
const wordClass = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\u24B6-\u24E9`

// translator rewrites a pattern from Ruby's syntax to .NET's, which regexp2 reads. Most of it is the same in both. What
// differs and occurs is rewritten; what differs and does not occur is refused, since it would match something else
// without a word.
type translator struct {
	in   string
	at   int
	out  strings.Builder
	atom int   // where in out the last atom begins
	open []int // where in out the open groups begin
}

func translate(source string) (string, error) {
	t := translator{in: source}
	for t.at < len(t.in) {
		if err := t.step(); err != nil {
			return "", err
		}
	}
	return t.out.String(), nil
}

// rest is what is still to be rewritten.
func (t *translator) rest() string { return t.in[t.at:] }

// refuse is the error for something unknown at the current place.
func (t *translator) refuse(what string) error {
	return unsupported("regular expression", fmt.Sprintf("%s at byte %d", what, t.at))
}

// step rewrites one element.
func (t *translator) step() error {
	c := t.in[t.at]
	switch c {
	case '\\':
		t.atom = t.out.Len()
		return t.escape(false)
	case '[':
		t.atom = t.out.Len()
		return t.class()
	case '(':
		return t.group()
	case ')':
		if n := len(t.open); n > 0 {
			t.atom = t.open[n-1]
			t.open = t.open[:n-1]
		}
		t.copy(1)
	case '^', '$': // of a line in Ruby
		t.atom = t.out.Len()
		t.out.WriteString("(?m:" + string(c) + ")")
		t.at++
	case '{':
		return t.interval()
	case '*', '+', '?', '|':
		t.copy(1)
	default:
		t.atom = t.out.Len()
		_, n := utf8.DecodeRuneInString(t.rest())
		t.copy(n)
	}
	return nil
}

func (t *translator) copy(n int) {
	t.out.WriteString(t.rest()[:n])
	t.at += n
}

// escape rewrites what begins with a backslash.
func (t *translator) escape(inClass bool) error {
	if t.at+1 == len(t.in) {
		return t.refuse("a lone backslash")
	}
	c := t.in[t.at+1]
	switch {
	case c == 'w' && inClass:
		t.out.WriteString(wordClass)
		t.at += 2
	case c == 'w':
		t.out.WriteString("[" + wordClass + "]")
		t.at += 2
	case c == 'W' && !inClass:
		t.out.WriteString("[^" + wordClass + "]")
		t.at += 2
	case c == 'p' || c == 'P':
		name, _, closed := strings.Cut(t.rest(), "}")
		if !closed || !strings.HasPrefix(name[2:], "{") {
			return t.refuse("a property without braces")
		}
		t.property(name + "}")
	case strings.IndexByte("sSdDnrtfux", c) >= 0 || c < 0x80 && !isWordByte(c):
		t.copy(2)
	default:
		return t.refuse(fmt.Sprintf(`\%c`, c))
	}
	return nil
}

// property copies \p{…}; Ruby writes its negation as \p{^…} too.
func (t *translator) property(p string) {
	t.at += len(p)
	if name, negated := strings.CutPrefix(p, `\p{^`); negated {
		p = `\P{` + name
	}
	t.out.WriteString(p)
}

// class rewrites a character class up to its end.
func (t *translator) class() error {
	t.copy(1)
	if strings.HasPrefix(t.rest(), "^") {
		t.copy(1)
	}
	for first := true; t.at < len(t.in); first = false {
		rest := t.rest()
		switch {
		case rest[0] == ']' && first:
			return t.refuse("an empty class")
		case rest[0] == ']':
			t.copy(1)
			return nil
		case rest[0] == '\\':
			if err := t.escape(true); err != nil {
				return err
			}
		case rest[0] == '[' || strings.HasPrefix(rest, "&&"):
			return t.refuse("a class inside a class")
		default:
			t.copy(1)
		}
	}
	return t.refuse("a class without end")
}

// group rewrites the head of a group.
func (t *translator) group() error {
	rest := t.rest()
	for _, head := range []string{"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"} {
		if strings.HasPrefix(rest, head) {
			t.open = append(t.open, t.out.Len())
			t.copy(len(head))
			return nil
		}
	}
	if strings.HasPrefix(rest, "(?i)") && t.at == 0 {
		t.copy(len("(?i)"))
		return nil
	}
	if strings.HasPrefix(rest, "(?") {
		return t.refuse(fmt.Sprintf("the group %.4q", rest))
	}
	t.open = append(t.open, t.out.Len())
	t.copy(1)
	return nil
}

// interval rewrites {n,m}. A plus behind it repeats it in Ruby and makes it possessive in .NET; {,m} is literal in
// .NET.
func (t *translator) interval() error {
	bounds, _, closed := strings.Cut(t.rest()[1:], "}")
	if !closed || bounds == "" || strings.Trim(bounds, "0123456789,") != "" {
		return t.refuse("a brace")
	}
	t.at += len(bounds) + len("{}")
	if strings.HasPrefix(bounds, ",") {
		bounds = "0" + bounds
	}
	if !strings.HasPrefix(t.rest(), "+") {
		t.out.WriteString("{" + bounds + "}")
		return nil
	}
	t.at++
	all := t.out.String()
	atom := all[t.atom:]
	t.out.Reset()
	t.out.WriteString(all[:t.atom])
	t.out.WriteString("(?:" + atom + "{" + bounds + "})+")
	return nil
}

func isWordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
