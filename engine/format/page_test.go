package format

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPage(t *testing.T) {
	long := strings.Repeat("ä", 30)
	p := NewPage(0, 10)
	p.Line("a  ")
	p.Field("none", "", "")
	p.Field("few", "1", "", "2")
	p.Field("many", long, long, long)
	p.Sentence("  - ", strings.Repeat("word ", 20))
	p.Wrap("", "", " ", []string{strings.Repeat("x", 99)}) // what cannot be wrapped
	p.Table(8, []string{"who", "a", "äöü"}, [][]string{{"ä", "1", ""}, {"b", "", "22"}})
	want := "a\n" +
		"  few     1   2\n" +
		"  many    " + long + Gap + long + "\n" +
		"          " + long + "\n" +
		"  - " + strings.TrimSuffix(strings.Repeat("word ", 15), " ") + "\n" +
		"    " + strings.TrimSuffix(strings.Repeat("word ", 5), " ") + "\n" +
		strings.Repeat("x", 99) + "\n" +
		"  who" + strings.Repeat(" ", 66) + "a     äöü\n" +
		"  ä" + strings.Repeat(" ", 68) + "1\n" +
		"  b" + strings.Repeat(" ", 75) + "22\n"
	if got := string(p.Bytes()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for given, want := range map[int]int{-1: 80, 0: 80, 79: 80, 93: 93, 200: 100} {
		if got := NewPage(given, 9).Width; got != want {
			t.Errorf("terminal of %d columns: page of %d, want %d", given, got, want)
		}
	}
	for _, s := range []string{"", "äß", "123456"} {
		if l, r := Left(s, 4), Right(s, 4); !strings.HasPrefix(l, s) || !strings.HasSuffix(r, s) || utf8.RuneCountInString(l) != max(4, Columns(s)) || Columns(r) != Columns(l) {
			t.Errorf("%q: %q and %q", s, l, r)
		}
	}
}
