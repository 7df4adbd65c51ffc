package rows

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestShapeIsUsed keeps the short way from falling into disuse unnoticed.
func TestShapeIsUsed(t *testing.T) {
	const (
		usual = `{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4, 5], "x": "y"}`
		alike = `{"timestamp": 2.5, "input_length": 20, "output_length": 30, "hash_ids": [], "x": {"z": 0}}`
	)
	for _, c := range []struct {
		row  string
		same bool
	}{
		{usual, true},
		{alike, true},
		{strings.Replace(alike, " ", "", 1), false},
		{strings.Replace(alike, "}}", "} }", 1), false},
		{strings.Replace(alike, "20", "-20", 1), false},
		{strings.Replace(alike, "output", "0utput", 1), false},
		{alike + " ", false},
		{`{}`, false},
	} {
		p := NewReader(&Layout{Names: UsualNames()}, time.Second)
		must.Have(p.Parse([]byte(usual)))(t)
		p.empty()
		expect.Equal(t, p.sameShape([]byte(c.row)), c.same, "%s: the same shape", c.row)
	}
}

// TestWords compares the word trick with a loop over bytes, on words that mix the bytes around every boundary.
func TestWords(t *testing.T) {
	edges := []byte{0, 1, ' ' - 1, ' ', '!', '"', '#', '/', '0', '1', '5', '8', '9', ':', '[', '\\', ']', 0x7f, 0x80, 0xb0, 0xb9, 0xc6, 0xff}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500_000 {
		var b [8]byte
		for i := range b {
			b[i] = edges[rng.IntN(len(edges))]
			if rng.IntN(2) == 0 {
				b[i] = '0' + byte(rng.IntN(10))
			}
		}
		word := binary.LittleEndian.Uint64(b[:])
		digits := 0
		for digits < 8 && b[digits] >= '0' && b[digits] <= '9' {
			digits++
		}
		want, _ := strconv.ParseUint(string(b[:digits]), 10, 64)
		if v, n := leadingDigits(word); n != digits || v != want {
			t.Fatalf("leadingDigits(%q) = %d, %d; want %d, %d", b, v, n, want, digits)
		}
	}
}

func TestPlainNumber(t *testing.T) {
	for _, c := range []struct {
		in string
		v  uint64
		n  int
	}{
		{"", 0, 0}, {"x", 0, 0}, {"7", 7, 1}, {"0,", 0, 1}, {"01", 0, 0}, {"0000000000", 0, 0}, {"12345678", 12345678, 8}, {"123456789,1234567", 123456789, 9},
		{"1234567,", 1234567, 7}, {"9999999999999999999", 9999999999999999999, 19}, {"9999999999999999999]      ", 9999999999999999999, 19},
		{"10000000000000000000", 0, 0}, {"18446744073709551615", 0, 0},
	} {
		if v, n := plainNumber([]byte(c.in), 0); n != c.n || n > 0 && v != c.v {
			t.Errorf("plainNumber(%q) = %d, %d; want %d, %d", c.in, v, n, c.v, c.n)
		}
	}
}

// FuzzCSV compares the cells of a line with encoding/csv's, and writes what it read to read it again.
func FuzzCSV(f *testing.F) {
	for _, file := range []string{"2023-11-16 18:17:03.9799600,4808,10", "61,,,GPT-4,12,1,13,\"log, \"\"other\"\"\"", "a,\"b\"\"c\",,\" d \" ,\n,\n\"\"\n\"x\n\"x\"y\na\"b,c\n"} {
		for line := range strings.SplitSeq(file, "\n") {
			f.Add([]byte(line))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var quoted []byte
		cells, err := splitCSV(nil, &quoted, line)
		if want, sure := oracleCells(line); sure {
			must.Do(t, err, "%q: encoding/csv reads %q", line, want)
			if !sameCells(cells, want) {
				t.Fatalf("%q: got %q, want %q", line, cells, want)
			}
		}
		if err != nil || bytes.ContainsAny(line, "\n\r") {
			return
		}
		var written []byte
		for i, c := range cells {
			if i > 0 {
				written = append(written, ',')
			}
			written = AppendCell(written, string(c))
		}
		var again []byte
		back, err := splitCSV(nil, &again, written)
		if err != nil || len(back) != len(cells) {
			t.Fatalf("%q, written as %q: %q, %v", cells, written, back, err)
		}
		for i := range back {
			if !bytes.Equal(back[i], cells[i]) {
				t.Fatalf("%q, written as %q: %q", cells, written, back)
			}
		}
	})
}

// oracleCells is the cells of a line by encoding/csv, if it takes the line and means the same by white space.
func oracleCells(line []byte) (cells []string, sure bool) {
	for _, c := range line {
		if c != '\t' && (c < ' ' || c > '~') {
			return nil, false
		}
	}
	r := csv.NewReader(bytes.NewReader(line))
	r.TrimLeadingSpace = true
	cells, err := r.Read()
	return cells, err == nil && len(cells) <= maxColumns
}

// sameCells compares but for white space at the ends, which encoding/csv keeps behind a value.
func sameCells(got [][]byte, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if strings.Trim(string(got[i]), " \t") != strings.Trim(want[i], " \t") {
			return false
		}
	}
	return true
}
