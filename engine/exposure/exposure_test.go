package exposure

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// row is a row of the tests' traces.
type row struct {
	session     string
	at          int
	input, out  int
	ids, answer []uint64
}

// day are sessions that grow, of which many begin with one of a few templates. Every block has 16 tokens.
func day(chance *rand.Rand, sessions, turns int) (all []row) {
	said := make([][]uint64, sessions)
	next := uint64(1000)
	for n := range sessions * turns {
		s := chance.IntN(sessions)
		if said[s] == nil {
			template := uint64(1)
			for chance.IntN(2) == 0 {
				template++
			}
			said[s] = []uint64{template * 10, template*10 + 1}
		}
		for range 1 + chance.IntN(4) {
			next++
			said[s] = append(said[s], next)
		}
		r := row{session: fmt.Sprintf("s%d", s), at: n * 700, input: 16*len(said[s]) - chance.IntN(16), out: 1 + chance.IntN(90)}
		r.ids = slices.Clone(said[s])
		if s%7 == 6 {
			r.session = ""
		}
		for range (r.input+r.out)/16 - r.input/16 {
			next++
			r.answer = append(r.answer, next)
		}
		if r.input%16 > 0 { // the last block is partial: what goes on has another one
			next++
			said[s][len(said[s])-1] = next
			if len(r.answer) > 0 {
				said[s][len(said[s])-1] = r.answer[0]
			}
		}
		all = append(all, r)
	}
	return all
}

func read(t *testing.T, all []row) *trace.Trace {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `{"schema":"fastreplay/trace/v1","mode":"keyed","hash":"x","scope":"epoch","block_size":16,"chained":true,"unit":"token","source":"test","times":"as_logged","time_unit":"ms","dropped":[],"rows":%d,"lost":{}}`+"\n", len(all))
	list := func(ids []uint64) string { return strings.ReplaceAll(fmt.Sprint(ids), " ", ",") }
	for _, r := range all {
		fmt.Fprintf(&b, `{"timestamp":%d,`, r.at)
		if r.session != "" {
			fmt.Fprintf(&b, `"session_id":%q,`, r.session)
		}
		if len(r.answer) > 0 {
			fmt.Fprintf(&b, `"output_hash_ids":%s,`, list(r.answer))
		}
		fmt.Fprintf(&b, `"input_length":%d,"output_length":%d,"hash_ids":%s}`+"\n", r.input, r.out, list(r.ids))
	}
	return must.Have(trace.Read(strings.NewReader(b.String()), "day", trace.Options{Strict: true}))(t)
}

// sessionsOfIDs are the sessions that have each id, by comparing all with all.
func sessionsOfIDs(names []string, ids func(i int) []uint64) map[uint64]map[string]bool {
	all := map[uint64]map[string]bool{}
	for i, name := range names {
		for _, id := range ids(i) {
			if all[id] == nil {
				all[id] = map[string]bool{}
			}
			all[id][name] = true
		}
	}
	return all
}

// names are the sessions of rows, each without one having its own.
func names(all []row) (names []string) {
	for i, r := range all {
		if r.session == "" {
			r.session = fmt.Sprint("row ", i)
		}
		names = append(names, r.session)
	}
	return names
}

// TestLook: what is counted is what an oracle counts that compares all with all.
func TestLook(t *testing.T) {
	for seed := range uint64(5) {
		all := day(rand.New(rand.NewPCG(seed, 1)), 40, 3)
		r := Look(read(t, all), 5)
		of := names(all)
		ids := sessionsOfIDs(of, func(i int) []uint64 { return slices.Concat(all[i].ids, all[i].answer) })
		alone, few, least := 0, 0, 0
		for _, who := range ids {
			n := len(who)
			switch {
			case n == 1:
				alone++
				continue
			case n < 5:
				few++
			}
			if least == 0 || n < least {
				least = n
			}
		}
		expect.Equal(t, r.Rows, len(all), "rows")
		expect.Equal(t, r.IDs, len(ids), "ids")
		expect.Equal(t, r.Alone, alone, "ids of one session")
		expect.Equal(t, r.RareIDs, few, "ids of few sessions")
		expect.Equal(t, r.Least, least, "the smallest group")
		expect.Equal(t, r.Sessions, len(slices.Compact(slices.Sorted(slices.Values(of)))), "sessions")
		rareInputs := 0
		for i := range all {
			who := map[string]bool{}
			for j := range all {
				if all[i].input == all[j].input {
					who[of[j]] = true
				}
			}
			if len(who) < 5 {
				rareInputs++
			}
		}
		expect.Equal(t, r.RareInputs, rareInputs, "rare lengths of prompts")
		most := 0
		for _, name := range of {
			n := 0
			for _, other := range of {
				if name == other {
					n++
				}
			}
			most = max(most, n)
		}
		expect.Equal(t, r.Longest[0].Turns, most, "turns of the longest session")
		if r.Nameless == 0 || few == 0 {
			t.Errorf("seed %d shows nothing: %+v", seed, r)
		}
	}
}

// TestDropRare: afterwards an id of several sessions is of at least so many, those that were are as they were, and within
// a session equal ids are where they were. The file can be read, and costs what its hits say.
func TestDropRare(t *testing.T) {
	for seed := range uint64(5) {
		all := day(rand.New(rand.NewPCG(seed, 2)), 40, 3)
		was := read(t, all)
		const fewest = 6
		is := again(t, Remedies{DropRare: fewest}.Apply(was))
		of := names(all)
		before := sessionsOfIDs(of, func(i int) []uint64 { return slices.Concat(was.Blocks(i), was.AnswerBlocks(i)) })
		after := sessionsOfIDs(of, func(i int) []uint64 { return slices.Concat(is.Blocks(i), is.AnswerBlocks(i)) })
		kept := 0
		for id, who := range after {
			if len(who) > 1 && len(who) < fewest {
				t.Fatalf("id %d is of %d sessions", id, len(who))
			}
			if len(who) > 1 {
				kept++
				expect.Equal(t, maps.Equal(before[id], who), true, "sessions of id %d", id)
			}
		}
		if kept == 0 || len(after) <= len(before) {
			t.Errorf("seed %d shows nothing", seed)
		}
		for i := range all {
			for j := range i {
				if of[i] != of[j] {
					continue
				}
				for k := range min(len(was.Blocks(i)), len(was.Blocks(j))) {
					same := was.Blocks(i)[k] == was.Blocks(j)[k]
					expect.Equal(t, is.Blocks(i)[k] == is.Blocks(j)[k], same, "block %d of rows %d and %d of a session", k, i, j)
				}
				if a := was.AnswerBlocks(j); len(a) > 0 {
					at := slices.Index(was.Blocks(i), a[0])
					expect.Equal(t, slices.Index(is.Blocks(i), is.AnswerBlocks(j)[0]), at, "the answer of row %d in row %d", j, i)
				}
			}
		}
		lost := Look(is, fewest)
		if old := Look(was, fewest); lost.Hits >= old.Hits || lost.RareIDs != 0 || lost.Least < fewest {
			t.Errorf("%d hits of %d; %+v", lost.Hits, old.Hits, lost)
		}
	}
}

// again writes a trace and reads what was written.
func again(t *testing.T, tr *trace.Trace) *trace.Trace {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, trace.Write(&b, tr, trace.Own))
	return must.Have(trace.Read(&b, "written", trace.Options{Strict: true}))(t)
}

// TestSessionsAreNumbered: names of sessions are not handed out, and each session is still one.
func TestSessionsAreNumbered(t *testing.T) {
	all := []row{{session: "alice@a.com", input: 16, out: 1, ids: []uint64{1}}, {session: "", at: 1, input: 16, out: 1, ids: []uint64{1}},
		{session: "bob", at: 2, input: 16, out: 1, ids: []uint64{2}}, {session: "alice@a.com", at: 3, input: 16, out: 1, ids: []uint64{1}}}
	var b bytes.Buffer
	must.Do(t, trace.Write(&b, Remedies{Jitter: 1}.Apply(read(t, all)), trace.Own))
	expect.Lacks(t, b.String(), "alice", "a name")
	expect.Lacks(t, b.String(), "bob", "a name")
	for name, rows := range map[string]int{"s1": 2, "s2": 1, "session_id": 3} {
		expect.Equal(t, strings.Count(b.String(), `"`+name+`"`), rows, name)
	}
}

// TestRoundLengths: lengths are multiples, none is shorter, blocks that were whole are where they were, and so are those
// of answers that a later turn has.
func TestRoundLengths(t *testing.T) {
	for _, to := range []int{7, 16, 64, 100} {
		all := day(rand.New(rand.NewPCG(uint64(to), 3)), 30, 4)
		was := read(t, all)
		is := again(t, Remedies{RoundLengths: to}.Apply(was))
		expect.Equal(t, is.Heads[0].RoundLengths, to, "what the head says")
		seen := 0
		for i := range all {
			in, out := int(is.InputTokens[i]), int(is.OutputTokens[i])
			if in%to != 0 || out%to != 0 || in < all[i].input || in >= all[i].input+to || out < all[i].out || out >= all[i].out+to {
				t.Fatalf("%d and %d tokens become %d and %d, to %d", all[i].input, all[i].out, in, out, to)
			}
			expect.Equal(t, len(is.Blocks(i)), (in+15)/16, "ids of a prompt")
			expect.List(t, is.Blocks(i)[:len(all[i].ids)], all[i].ids, "ids that were there")
			first := in / 16 // the block that the first id of the answer is of
			for k, id := range is.AnswerBlocks(i) {
				at := first + k - all[i].input/16
				must.Equal(t, id, all[i].answer[at], "id %d of the answer of row %d", k, i)
				seen++
			}
		}
		if seen == 0 && to <= 16 {
			t.Error("no answer has an id left: the test shows nothing")
		}
	}
}

// TestJitter: instants are moved, none by more than it says, and turns of a session stay in order.
func TestJitter(t *testing.T) {
	all := day(rand.New(rand.NewPCG(1, 4)), 10, 20)
	was := read(t, all)
	const most = 900 * time.Millisecond
	is := again(t, Remedies{Jitter: most}.Apply(was))
	place := map[int]int{} // of a row, by its length of prompt and answer and its first new id
	key := func(tr *trace.Trace, i int) int { return int(tr.Blocks(i)[len(tr.Blocks(i))-1]) }
	for i := range is.Len() {
		place[key(is, i)] = i
	}
	moved := 0
	latest := map[string]int64{}
	for i := range all {
		at := is.ArrivalNS[place[key(was, i)]]
		if off := time.Duration(at - was.ArrivalNS[i]); off.Abs() > 2*most { // the first row, at 0, was moved too
			t.Errorf("row %d is moved by %v", i, off)
		} else if off != 0 {
			moved++
		}
		if s := all[i].session; s != "" {
			if at < latest[s] {
				t.Errorf("row %d comes before a turn that was before it", i)
			}
			latest[s] = at
		}
	}
	if moved < len(all)/2 {
		t.Errorf("only %d rows are moved", moved)
	}
	expect.Equal(t, is.Heads[0].JitterMS, float64(900), "what the head says")
}

// TestPage: the page has the numbers, and fits into 80 columns.
func TestPage(t *testing.T) {
	tr := read(t, day(rand.New(rand.NewPCG(1, 5)), 40, 3))
	r := Look(tr, 5)
	text := r.Page() + r.Costs(tr, Usual(5))
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 81 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
	expect.Contains(t, text, fmt.Sprintf("%d ids, ", r.IDs))
	expect.Contains(t, text, "--drop-rare 5 ")
	expect.Contains(t, Look(owned(t), 3).Page(), "values      5 of owners and parameters, 3 in fewer than 3 sessions\n")
	nameless := read(t, []row{{input: 16, out: 1, ids: []uint64{1}}, {input: 32, out: 1, ids: []uint64{1, 2}}})
	expect.Contains(t, Look(nameless, 5).Page(), "33 tokens   from row 1\n")
}

// TestStrangeName: what a terminal would obey in the name of a session is shown, and a long one is cut.
func TestStrangeName(t *testing.T) {
	tr := read(t, []row{{session: "\u202ename\n" + strings.Repeat("x", 9000), input: 16, out: 1, ids: []uint64{1}}})
	text := Look(tr, 5).Page()
	expect.Contains(t, text, `\u202ename\nxxx`)
	if len(text) > 1000 {
		t.Errorf("the page has %d bytes", len(text))
	}
}

// TestLargestRemedies: the largest remedies can be applied, and larger ones are refused.
func TestLargestRemedies(t *testing.T) {
	tr := read(t, day(rand.New(rand.NewPCG(1, 6)), 10, 3))
	largest := Remedies{DropRare: math.MaxInt, RoundLengths: mostRounding, Jitter: mostJitter}
	must.Do(t, largest.Check())
	is := again(t, largest.Apply(tr))
	expect.Equal(t, is.InputTokens[0], mostRounding, "tokens of a prompt")
	for _, m := range []Remedies{{RoundLengths: math.MaxInt}, {RoundLengths: mostRounding + 1}, {Jitter: math.MaxInt64}} {
		if m.Check() == nil {
			t.Errorf("%v is not refused", m)
		}
	}
}

// owned is a trace of another format whose rows have headers and parameters.
func owned(t *testing.T) *trace.Trace {
	t.Helper()
	row := `{"timestamp":0,"input_length":5,"output_length":1,"tenant":"a","headers":{"x-flow":"%d","x-from":"a"},"session_id":"%[1]d"}` + "\n"
	file := fmt.Sprintf(row, 1) + fmt.Sprintf(row, 2) + fmt.Sprintf(row, 3)
	return must.Have(trace.Read(strings.NewReader(file), "day", trace.Options{}))(t)
}

// TestHeadersAreValues: each header of a row is a value, of which rare ones tell who asked.
func TestHeadersAreValues(t *testing.T) {
	r := Look(owned(t), 3)
	expect.Equal(t, r.Values, 5, "a tenant, a header of all rows, and three of one each")
	expect.Equal(t, r.RareValues, 3, "rare values")
}

// TestHeadSaysWhatIsDropped: what no audited trace has is named, once each.
func TestHeadSaysWhatIsDropped(t *testing.T) {
	is := Remedies{DropRare: 2}.Apply(owned(t))
	want := []string{"headers", "names", "models", "parameters", "dependencies", "blocks of fewer than 2 sessions"}
	expect.List(t, is.Heads[0].Dropped, want, "of a trace of another format")
	expect.List(t, Remedies{}.Apply(is).Heads[0].Dropped, want, "of an audited one")
}
