package trace

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// cloned is every row in each of so many clones, one clone after the other.
func cloned(t *testing.T, tr *Trace, clones int) *Trace {
	t.Helper()
	return must.Have(clone(tr, clones))(t)
}

func clone(tr *Trace, clones int) (*Trace, error) {
	var source, clone []int32
	var at []int64
	for c := range clones {
		for i := range tr.Len() {
			source, clone, at = append(source, int32(i)), append(clone, int32(c)), append(at, tr.ArrivalNS[i]+int64(c)*tr.SpanNS())
		}
	}
	return tr.Copies(source, clone, at, tr.Conversations().Shared)
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) (all []int32) {
	for i := range n {
		all = append(all, int32(i))
	}
	return all
}

// sameColumns checks that request k of got is request order[k] of was in every column but some. It finds the columns by
// reflection, so that a new one cannot be forgotten.
func sameColumns(t *testing.T, got, was *Trace, order []int32, but ...string) {
	t.Helper()
	is, of := reflect.ValueOf(*got), reflect.ValueOf(*was)
	for f := range of.NumField() {
		name, column := of.Type().Field(f).Name, of.Field(f)
		mayLack := slices.Contains([]string{"Clone", "DelayNS", "Guessed", "Owner"}, name)
		if column.Kind() != reflect.Slice || name == "Types" || name == "Owners" || name == "Heads" || column.Len() == 0 && mayLack {
			continue
		}
		if n := is.Field(f).Len(); column.Len() != was.Len() || n != len(order) {
			t.Errorf("%s has %d entries, made of %d; want %d of %d", name, n, column.Len(), len(order), was.Len())
			continue
		}
		for k, i := range order {
			if !slices.Contains(but, name) && !is.Field(f).Index(k).Equal(column.Index(int(i))) {
				t.Fatalf("%s of request %d is not that of request %d", name, k, i)
			}
		}
	}
}

// TestCopiesHaveEveryColumn checks every column of three clones.
func TestCopiesHaveEveryColumn(t *testing.T) {
	tr := generate(t, chat())
	tr.DelayNS = slices.Repeat([]int64{5}, tr.Len())
	tr.Guessed = slices.Repeat([]bool{true, false}, tr.Len()/2)
	tr.Owner = slices.Repeat([]int32{0, -1}, tr.Len()/2)
	c := cloned(t, tr, 3)
	every := slices.Repeat(upTo(tr.Len()), 3)
	sameColumns(t, c, tr, every, "Clone", "ArrivalNS", "Session", "Chat", "Parent")
	sameColumns(t, c.chosen(upTo(tr.Len())), tr, every[:tr.Len()], "Clone")
	keys := map[uint64]bool{}
	for i := range c.Len() {
		keys[c.Unique(i)] = true
		if i < tr.Len() && c.Unique(i) != tr.Unique(i) {
			t.Fatalf("what is unique to row %d changes", i)
		}
	}
	expect.Equal(t, len(keys), c.Len())
}

// TestCopiesAreFresh: blocks are the same within a clone exactly where they are in the trace, and between clones only
// where they are shared; likewise conversations.
func TestCopiesAreFresh(t *testing.T) {
	const clones = 4
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		rows, session := talk(rng, 150)
		if seed%3 == 1 { // as hashes are
			for i := range rows {
				for j := range rows[i] {
					rows[i][j] = math.MaxUint64 - rows[i][j]*0x9E3779B97F4A7C15
				}
			}
		}
		tr := ofBlocks(rows)
		if seed%2 == 0 {
			tr.addConversations(session)
		}
		k, c := tr.Conversations(), cloned(t, tr, clones)
		from := map[uint64]string{} // what an id stands for
		for i := range c.Len() {
			source := i % tr.Len()
			blocks := c.Blocks(i)
			must.Equal(t, len(blocks), len(rows[source]), "blocks")
			for j, id := range blocks {
				what := fmt.Sprintf("%d in clone %d", rows[source][j], c.Clone[i])
				if j < int(k.Shared[source]) || c.Clone[i] == 0 {
					what = fmt.Sprintf("%d in clone 0", rows[source][j])
				}
				if was, known := from[id]; known && was != what {
					t.Fatalf("seed %d: id %d stands for %s and %s", seed, id, was, what)
				}
				from[id] = what
			}
		}
		distinct := map[string]bool{}
		for _, what := range from {
			distinct[what] = true
		}
		must.Equal(t, len(distinct), len(from), "seed %d", seed)
		c.checkConversations(t, tr, clones)
	}
}

// addConversations adds columns as the reader does for named conversations.
func (t *Trace) addConversations(session []int64) {
	before := map[int64]int64{}
	for i, s := range session {
		parent, known := before[s]
		if !known {
			parent = rows.NoParent
		}
		t.Session, t.Turn, t.Chat, t.Parent = append(t.Session, s), append(t.Turn, 1), append(t.Chat, int64(i)), append(t.Parent, parent)
		before[s] = int64(i)
	}
}

// checkConversations: chats are all different, a parent is that of the same clone, and a conversation has one clone.
func (t *Trace) checkConversations(tt *testing.T, was *Trace, clones int) {
	tt.Helper()
	if was.Session == nil {
		if t.Session != nil || t.Chat != nil || t.Parent != nil {
			tt.Fatal("conversations where there were none")
		}
		return
	}
	chats, sessions := map[int64]int{}, map[int64]int32{}
	for i := range t.Len() {
		if other, taken := chats[t.Chat[i]]; taken {
			tt.Fatalf("requests %d and %d have chat id %d", i, other, t.Chat[i])
		}
		chats[t.Chat[i]] = i
		if clone, known := sessions[t.Session[i]]; known && clone != t.Clone[i] {
			tt.Fatalf("conversation %d is of clones %d and %d", t.Session[i], clone, t.Clone[i])
		}
		sessions[t.Session[i]] = t.Clone[i]
		source := i % was.Len()
		if (t.Parent[i] < 0) != (was.Parent[source] < 0) {
			tt.Fatalf("request %d has parent %d, recorded %d", i, t.Parent[i], was.Parent[source])
		}
		if p, known := chats[t.Parent[i]]; t.Parent[i] >= 0 && (!known || t.Clone[p] != t.Clone[i] || was.Chat[p%was.Len()] != was.Parent[source]) {
			tt.Fatalf("request %d follows another than recorded", i)
		}
	}
	recorded := map[int64]bool{}
	for _, s := range was.Session {
		recorded[s] = true
	}
	if len(sessions) != clones*len(recorded) {
		tt.Fatalf("%d conversations %d times are %d", len(recorded), clones, len(sessions))
	}
}

// TestCopiesNameConversations: a name gets a tail, a number another number, and rows of none stay so; the file reads
// back the same.
func TestCopiesNameConversations(t *testing.T) {
	tr := read(t, `{"timestamp":0,"input_length":520,"output_length":2,"hash_ids":[7,9],"session_id":"a"}
{"timestamp":1,"input_length":512,"output_length":2,"hash_ids":[7],"session_id":40}
{"timestamp":2,"input_length":512,"output_length":2,"hash_ids":[8]}
{"timestamp":3,"input_length":1000,"output_length":2,"hash_ids":[7,9],"session_id":"a","delay":3}
`, Options{})
	c := cloned(t, tr, 3)
	var b bytes.Buffer
	must.Do(t, Write(&b, c, "mooncake"))
	again := read(t, b.String(), Options{})
	for i, name := range []string{"a", "40", "", "a", "a~1", "81", "", "a~1", "a~2", "122", "", "a~2"} {
		if got, _ := again.Conversation(i); got != name {
			t.Errorf("request %d is of conversation %q, want %q", i, got, name)
		}
		if got, _ := c.Conversation(i); got != name {
			t.Errorf("request %d was of conversation %q, want %q", i, got, name)
		}
		want(t, "blocks", again.Blocks(i), c.Blocks(i))
	}
	want(t, "blocks", c.Blocks(8), []uint64{7 + 2*10, 9 + 2*10})
	want(t, "arrivals", again.ArrivalNS, c.ArrivalNS)
	want(t, "turns", again.Turn, c.Turn)
	c.checkConversations(t, tr, 3)
}

// TestCopiesOfSome: rows may be left out, and the trace stays as it was, also where copies are added to it twice.
func TestCopiesOfSome(t *testing.T) {
	tr := ofBlocks([][]uint64{{1, 2}, {3}, {1, 2, 4}})
	shared := []int32{0, 0, 0}
	a := must.Have(tr.Copies([]int32{2, 0}, []int32{1, 1}, []int64{0, 5}, shared))(t)
	b := must.Have(tr.Copies([]int32{1, 1}, []int32{0, 3}, []int64{0, 6}, shared))(t)
	want(t, "blocks", a.Blocks(0), []uint64{6, 7, 9})
	want(t, "blocks", a.Blocks(1), []uint64{6, 7})
	want(t, "blocks", b.Blocks(0), []uint64{3})
	want(t, "blocks", b.Blocks(1), []uint64{18})
	want(t, "rows", b.Row, []int32{1, 1})
	want(t, "arrivals", b.ArrivalNS, []int64{0, 6})
	want(t, "blocks", tr.Blocks(2), []uint64{1, 2, 4})
}

// TestCopiesOfWords: what is there verbatim can be left out, not cloned.
func TestCopiesOfWords(t *testing.T) {
	tr := read(t, `{"text_input":"Hi","output_length":20}
{"text_input":"Ho"}
`, Options{})
	expect.Refused(clone(tr, 2))(t, "verbatim prompts", "two clones")
	one, err := tr.Copies([]int32{1}, []int32{0}, []int64{0}, []int32{0, 0})
	if err != nil || one.Len() != 1 || string(one.Verbatim(0).Content) != "Ho" || !one.Untimed {
		t.Errorf("%+v: %v", one, err)
	}
}

// TestRenumbering: whatever the numbers, all that clones get are new and different.
func TestRenumbering(t *testing.T) {
	const limit = 1000
	rng := rand.New(rand.NewPCG(1, 3))
	steps, ranges, refused := 0, 0, 0
	for range 3000 {
		clones := int32(1 + rng.IntN(5))
		numbers := make([]uint64, 1+rng.IntN(80))
		for i := range numbers {
			numbers[i] = uint64(rng.IntN(1 + []int{90, 90, limit}[rng.IntN(3)]))
		}
		f, err := newRenumbering(slices.Values(numbers), clones, limit)
		if err != nil {
			refused++
			continue
		}
		if f.places == nil {
			steps++
		} else {
			ranges++
		}
		from := map[uint64]string{}
		for _, n := range numbers {
			from[n] = fmt.Sprint(n)
		}
		for _, n := range numbers {
			for c := int32(1); c <= clones; c++ {
				got, what := f.of(n, c), fmt.Sprint(n, "of", c)
				if was, taken := from[got]; got > limit || taken && was != what {
					t.Fatalf("%v: %d of clone %d is %d, taken by %s", numbers, n, c, got, was)
				}
				from[got] = what
			}
		}
	}
	if steps < 100 || ranges < 100 || refused < 100 {
		t.Errorf("%d steps, %d ranges, %d refused: the test says little", steps, ranges, refused)
	}
	for _, numbers := range [][]uint64{{math.MaxUint64}, {0, math.MaxUint64}, {math.MaxUint64 - 1}} {
		f, err := newRenumbering(slices.Values(numbers), 3, math.MaxUint64)
		must.Do(t, err, numbers)
		if got := f.of(numbers[0], 3); got < 1 || got > 6 {
			t.Errorf("%v: %d", numbers, got)
		}
	}
}

func BenchmarkCopies(b *testing.B) {
	tr, err := Open(realPath(b), Options{})
	must.Do(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := clone(tr, 32); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRepeatRepeatsEveryColumn checks every column of three repetitions.
func TestRepeatRepeatsEveryColumn(t *testing.T) {
	tr := generate(t, chat())
	tr.Clone = tr.Turn
	const n = 3
	r := must.Have(tr.Repeat(n))(t)
	sameColumns(t, r, tr, slices.Repeat(upTo(tr.Len()), n), "ArrivalNS")
	period := tr.SpanNS() + int64(math.Round(float64(tr.SpanNS())/float64(tr.Len()-1)))
	for i := range n * tr.Len() {
		must.Equal(t, r.ArrivalNS[i], tr.ArrivalNS[i%tr.Len()]+int64(i/tr.Len())*period, "request %d at", i)
		if !slices.Equal(r.Blocks(i), tr.Blocks(i%tr.Len())) {
			t.Fatalf("request %d has other blocks", i)
		}
	}
}

// TestRepeatNamesWhatIsUnique: blocks without an id get one of their own, the same in each repetition.
func TestRepeatNamesWhatIsUnique(t *testing.T) {
	tr := &Trace{BlockTokens: 16, FileRows: 3, ArrivalNS: []int64{0, 10, 20}, InputTokens: []int32{40, 16, 33}, OutputTokens: []int32{1, 1, 1}, Row: []int32{0, 1, 2}}
	for _, ids := range [][]uint64{{1, 7}, nil, {1, 7, 8}} {
		tr.ids.Add(ids)
	}
	r := must.Have(tr.Repeat(2))(t)
	want(t, "instants", r.ArrivalNS, []int64{0, 10, 20, 30, 40, 50})
	for i, blocks := range [][]uint64{{1, 7, 9}, {10}, {1, 7, 8}, {1, 7, 9}, {10}, {1, 7, 8}} {
		want(t, "blocks", r.Blocks(i), blocks)
	}
	if same, _ := tr.Repeat(1); same != tr {
		t.Error("once is another trace")
	}
}

// TestPasses: passes follow each other as repetitions do, and have the content of clones.
func TestPasses(t *testing.T) {
	tr := generate(t, chat())
	const n = 3
	got := must.Have(tr.Passes(n))(t)
	clones := cloned(t, tr, n)
	want(t, "instants", got.ArrivalNS, must.Have(tr.Repeat(n))(t).ArrivalNS)
	want(t, "sessions", got.Session, clones.Session)
	want(t, "clones", got.Clone, clones.Clone)
	for i := range got.Len() {
		want(t, "blocks", got.Blocks(i), clones.Blocks(i))
	}
	expect.Refused(tr.Passes(0))(t, "", "no pass")
}

func TestRepeatRefusesTooMuch(t *testing.T) {
	tr := &Trace{BlockTokens: 16, ArrivalNS: []int64{0, math.MaxInt64 / 3}, InputTokens: []int32{1, 1}, OutputTokens: []int32{1, 1}, Row: []int32{0, 1}}
	tr.ids.Add(nil)
	tr.ids.Add(nil)
	for _, n := range []int{0, -1, 2, math.MaxInt32} {
		expect.Refused(tr.Repeat(n))(t, "", "%d times was accepted", n)
	}
}

func TestRepeatNeedsFreeIDs(t *testing.T) {
	tr := &Trace{BlockTokens: 16, ArrivalNS: []int64{0}, InputTokens: []int32{32}, OutputTokens: []int32{1}, Row: []int32{0}}
	tr.ids.Add([]uint64{math.MaxUint64})
	expect.Refused(tr.Repeat(2))(t, "", "no id is left, yet no error")
}

// TestFitted: what is left out is missing in every column; what is shorter has lost its end; the trace itself stays.
func TestFitted(t *testing.T) {
	tr := generate(t, chat())
	tr.Clone = tr.Turn
	var order []int32
	input, output := slices.Clone(tr.InputTokens), slices.Clone(tr.OutputTokens)
	for i := range tr.Len() {
		if i%3 != 1 {
			order = append(order, int32(i))
		}
		if i%4 == 0 {
			input[i], output[i] = 1+input[i]/3, 1
		}
	}
	blocks := slices.Clone(tr.Blocks(0))
	f := tr.Fitted(order, input, output)
	checkInvariants(t, f)
	sameColumns(t, f, tr, order, "InputTokens", "OutputTokens")
	for k, i := range order {
		if f.InputTokens[k] != input[i] || f.OutputTokens[k] != output[i] {
			t.Fatalf("request %d: %d and %d tokens, want %d and %d", k, f.InputTokens[k], f.OutputTokens[k], input[i], output[i])
		}
		all := tr.Blocks(int(i))
		if want := all[:min(len(all), blocksOf(input[i], tr.BlockTokens))]; !slices.Equal(f.Blocks(k), want) {
			t.Fatalf("request %d: blocks %v, want %v", k, f.Blocks(k), want)
		}
	}
	expect.List(t, tr.Blocks(0), blocks, "the trace itself was changed")
}
