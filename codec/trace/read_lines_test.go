package trace

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// linesOf reads to the end and returns the lines, "!" for one that is too long.
func linesOf(l *lineReader) (lines []string, numbers []int, err error) {
	for {
		line, err := l.next()
		switch {
		case err == io.EOF:
			return lines, numbers, nil
		case errors.Is(err, errLineTooLong):
			lines = append(lines, "!")
		case err != nil:
			return lines, numbers, err
		default:
			lines = append(lines, string(line))
		}
		numbers = append(numbers, l.line)
	}
}

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"a", []string{"a"}},
		{"a\n", []string{"a"}},
		{"a\r\nb\r\n", []string{"a", "b"}},
		{"\n\r\n", []string{"", ""}},
		{"\xef\xbb\xbfa\n\xef\xbb\xbfb", []string{"a", "\xef\xbb\xbfb"}},
		{"a\r", []string{"a"}},
		{long + "\nb", []string{"!", "b"}},
		{"a\n" + long + long, []string{"a", "!"}},
		{strings.Repeat("y", 40) + "\n" + strings.Repeat("z", 41) + "\nc\n", []string{strings.Repeat("y", 40), "!", "c"}},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
			"data with EOF": iotest.DataErrReader(strings.NewReader(c.in)), "halves": iotest.HalfReader(strings.NewReader(c.in)),
		} {
			for _, size := range []int{1, 7, 64, 4096} {
				l := &lineReader{r: bufio.NewReaderSize(r, size), longest: 40}
				got, numbers, err := linesOf(l)
				if err != nil || !slices.Equal(got, c.want) {
					t.Errorf("%q, %s, buffer %d: got %q, %v; want %q", c.in, name, size, got, err, c.want)
				}
				for i, n := range numbers {
					expect.Equal(t, n, i+1, "%q: line", c.in)
				}
				r = strings.NewReader(c.in)
			}
		}
	}
}

func TestLineReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "a\nb", "a\n" + strings.Repeat("x", 50)} {
		l := &lineReader{r: bufio.NewReaderSize(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken)), 16), longest: 20}
		if lines, _, err := linesOf(l); !errors.Is(err, broken) || slices.Contains(lines, "b") {
			t.Errorf("%q: got %q, %v; want the reader's error and no half line", in, lines, err)
		}
	}
	l := newLineReader(bufio.NewReader(emptyReader{}))
	if _, err := l.next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader without bytes: %v, want %v", err, io.ErrNoProgress)
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// FuzzSplit reads the same file in one piece and byte by byte: trace and error must be the same.
func FuzzSplit(f *testing.F) {
	f.Add([]byte(strings.Join(rowSeeds()[:6], "\r\n")))
	f.Add([]byte("\xef\xbb\xbf" + strings.Join(rowSeeds(), "\n\n")))
	f.Add([]byte(azureFile))
	f.Add([]byte(burstFile))
	for _, file := range []string{rawFile, inputsFile, batchFile, captureFile(), graphFile} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		whole, err := Read(bytes.NewReader(file), "f", Options{Lenient: true})
		parts, err2 := Read(iotest.OneByteReader(bytes.NewReader(file)), "f", Options{Lenient: true})
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("in one piece: %v; byte by byte: %v", err, err2)
		}
		if err != nil {
			return
		}
		checkInvariants(t, whole)
		sameTrace(t, parts, whole)
	})
}

// checkInvariants asserts what every trace promises.
func checkInvariants(t *testing.T, tr *Trace) {
	t.Helper()
	if tr.Len() == 0 || tr.ArrivalNS[0] != 0 || !slices.IsSorted(tr.ArrivalNS) || tr.FileRows < tr.Len()+tr.Lint.Dropped {
		t.Fatalf("arrivals %v of %d file rows, %d dropped", tr.ArrivalNS, tr.FileRows, tr.Lint.Dropped)
	}
	refs := 0
	for i := range tr.Len() {
		n, blocks := len(tr.Blocks(i)), (int(tr.InputTokens[i])+tr.BlockTokens-1)/tr.BlockTokens
		refs += n
		verbatim := tr.Verbatim(i).Kind != NoVerbatim
		if n > blocks || !verbatim && (tr.InputTokens[i] < 1 || tr.OutputTokens[i] < 1) || int(tr.Row[i]) >= tr.FileRows {
			t.Fatalf("request %d: %d ids for %d blocks, input %d, output %d, row %d of %d", i, n, blocks, tr.InputTokens[i], tr.OutputTokens[i], tr.Row[i], tr.FileRows)
		}
		if i > 0 && tr.ArrivalNS[i] == tr.ArrivalNS[i-1] && tr.Row[i] < tr.Row[i-1] && !tr.HasDependencies() {
			t.Fatalf("request %d at the same instant as the one before comes from an earlier row", i)
		}
		if tr.Type != nil && int(tr.Type[i]) >= len(tr.Types) {
			t.Fatalf("request %d has type %d of %d", i, tr.Type[i], len(tr.Types))
		}
	}
	checkGraph(t, tr)
	must.Equal(t, refs, tr.BlockRefs(), "block references")
}

// sameTrace compares what a replay sees.
func sameTrace(t *testing.T, got, want *Trace) {
	t.Helper()
	must.Equal(t, got.Len(), want.Len(), "requests")
	gotIDs, wantIDs := got.Blocks, want.Blocks
	if f := formatOf(t, got); f.Write.Graph {
		gotIDs, wantIDs = inOrder(got), inOrder(want)
	}
	for i := range want.Len() {
		if got.ArrivalNS[i] != want.ArrivalNS[i] || got.InputTokens[i] != want.InputTokens[i] || got.OutputTokens[i] != want.OutputTokens[i] {
			t.Fatalf("request %d: got %d ns, %d → %d tokens; want %d ns, %d → %d", i, got.ArrivalNS[i], got.InputTokens[i], got.OutputTokens[i],
				want.ArrivalNS[i], want.InputTokens[i], want.OutputTokens[i])
		}
		if !slices.Equal(gotIDs(i), wantIDs(i)) && formatOf(t, got).Has(rows.HashIDsField) {
			t.Fatalf("request %d: blocks %v, want %v", i, got.Blocks(i), want.Blocks(i))
		}
		if got.Session != nil && want.Session != nil && (got.Session[i] >= 0 || want.Session[i] >= 0) && (got.Session[i] != want.Session[i] || got.Turn[i] != want.Turn[i]) {
			t.Fatalf("request %d: session %d turn %d, want %d, %d", i, got.Session[i], got.Turn[i], want.Session[i], want.Turn[i])
		}
		if got.Type != nil && want.Type != nil && got.Types[got.Type[i]] != want.Types[want.Type[i]] {
			t.Fatalf("request %d: type %q, want %q", i, got.Types[got.Type[i]], want.Types[want.Type[i]])
		}
	}
}

// inOrder numbers a trace's block ids in order of first appearance.
func inOrder(tr *Trace) func(i int) []uint64 {
	numbers := map[uint64]uint64{}
	lists := make([][]uint64, tr.Len())
	for i := range lists {
		for _, id := range tr.Blocks(i) {
			if _, known := numbers[id]; !known {
				numbers[id] = uint64(len(numbers))
			}
			lists[i] = append(lists[i], numbers[id])
		}
	}
	return func(i int) []uint64 { return lists[i] }
}

func formatOf(t *testing.T, tr *Trace) *formats.Format {
	t.Helper()
	f := must.Have(formats.ByName(tr.Format))(t)
	return f
}
