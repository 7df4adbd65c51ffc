package trace

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// naiveRoot follows the parents of a row one by one; loop means that the row is its own ancestor.
func naiveRoot(chats, parents []int64, looping []bool, i int) (root int64, loop bool) {
	at := i
	for range len(chats) + 1 {
		next := -1
		for j, chat := range chats {
			if chat == parents[at] && parents[at] != -1 {
				next = j
				break
			}
		}
		if next < 0 || looping != nil && looping[next] {
			return chats[at], false
		}
		if at = next; at == i {
			return 0, true
		}
	}
	return 0, false // leads into a loop
}

// TestSessionsMatchNaive tries random forests with orphans, repeated chat ids and loops.
func TestSessionsMatchNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 500 {
		n := 1 + rng.IntN(12)
		chats, parents := make([]int64, n), make([]int64, n)
		var file strings.Builder
		for i := range n {
			chats[i], parents[i] = int64(rng.IntN(14)), int64(rng.IntN(16)-1)
			fmt.Fprintf(&file, `{"chat_id":%d,"parent_chat_id":%d,"timestamp":1,"input_length":1,"output_length":1}`+"\n", chats[i], parents[i])
		}
		looping := make([]bool, n)
		loops := 0
		for i := range n {
			if _, loop := naiveRoot(chats, parents, nil, i); loop {
				looping[i] = true
				loops++
			}
		}
		tr, err := Read(strings.NewReader(file.String()), "t", Options{Lenient: true})
		if loops == n {
			if err == nil {
				t.Fatalf("round %d: only loops, but no error", round)
			}
			continue
		}
		if err != nil || tr.Lint.Dropped != loops || tr.Len() != n-loops {
			t.Fatalf("round %d: %+v, %v; want %d of %d rows dropped\n%s", round, tr, err, loops, n, file.String())
		}
		for i, row := range tr.Row {
			if root, _ := naiveRoot(chats, parents, looping, int(row)); tr.Session[i] != root {
				t.Fatalf("round %d, row %d: session %d, want %d\n%s", round, row, tr.Session[i], root, file.String())
			}
		}
	}
}

// TestLongChain makes sure that a conversation of many turns needs no stack and linear time.
func TestLongChain(t *testing.T) {
	const n = 200_000
	l := newLoader(Options{Format: "bailian"})
	l.begin("t", "")
	for i := range n {
		l.Chat = append(l.Chat, int64(i))
		l.Parent = append(l.Parent, int64(i+1)) // the last row is the root
	}
	for i, root := range l.resolveSessions() {
		must.Equal(t, root, n-1, "row %d: root", i)
	}
}

// TestLoneGuesses: a guessed session of one request is none, and a recorded one is.
func TestLoneGuesses(t *testing.T) {
	file := `{"schema":"fastreplay/trace/v1","mode":"as_in","block_size":16}` + "\n"
	for _, session := range []string{`"a","recorded":false`, `"b","recorded":false`, `"c"`, `"a","recorded":false`} {
		file += `{"timestamp":1,"session_id":` + session + `,"input_length":20,"output_length":2}` + "\n"
	}
	tr := must.Have(Read(strings.NewReader(file), "day", Options{}))(t)
	for i, want := range []string{"a", "", "c", "a"} {
		name, _ := tr.Conversation(i)
		must.Equal(t, name, want, "session of row %d", i)
		must.Equal(t, tr.Guessed[i], want == "a", "row %d is a guess", i)
	}
}

// TestGuessesWithoutSessions: rows that are marked as guessed and name no session are rows without one.
func TestGuessesWithoutSessions(t *testing.T) {
	file := `{"schema":"fastreplay/trace/v1","mode":"as_in","block_size":16}` + "\n" +
		`{"timestamp":0,"recorded":false,"input_length":5,"output_length":1}` + "\n"
	tr := read(t, file, Options{Strict: true})
	must.Equal(t, tr.Len(), 1, "rows")
	must.Equal(t, tr.Session == nil && tr.Guessed == nil, true, "no session, and none guessed")
}
