package trace

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// TestRepeatRepeatsEveryColumn finds the columns by reflection, so that a new one cannot be forgotten.
func TestRepeatRepeatsEveryColumn(t *testing.T) {
	tr := generate(t, chat())
	tr.Clone = tr.Turn
	const n = 3
	r, err := tr.Repeat(n)
	if err != nil {
		t.Fatal(err)
	}
	was, is := reflect.ValueOf(*tr), reflect.ValueOf(*r)
	for f := range was.NumField() {
		column := was.Field(f)
		name := was.Type().Field(f).Name
		if column.Kind() != reflect.Slice || name == "Types" || column.Len() == 0 {
			continue
		}
		if got := is.Field(f).Len(); got != n*tr.Len() {
			t.Errorf("%s has %d entries, want %d", name, got, n*tr.Len())
			continue
		}
		for i := range n * tr.Len() {
			if name != "ArrivalNS" && !is.Field(f).Index(i).Equal(column.Index(i%tr.Len())) {
				t.Fatalf("%s of request %d is not that of request %d", name, i, i%tr.Len())
			}
		}
	}
	period := tr.SpanNS() + int64(math.Round(float64(tr.SpanNS())/float64(tr.Len()-1)))
	for i := range n * tr.Len() {
		if want := tr.ArrivalNS[i%tr.Len()] + int64(i/tr.Len())*period; r.ArrivalNS[i] != want {
			t.Fatalf("request %d at %d ns, want %d", i, r.ArrivalNS[i], want)
		}
		if !slices.Equal(r.Blocks(i), tr.Blocks(i%tr.Len())) {
			t.Fatalf("request %d has other blocks", i)
		}
	}
}

// TestRepeatNamesWhatIsUnique: blocks without an id get one of their own, the same in each repetition.
func TestRepeatNamesWhatIsUnique(t *testing.T) {
	tr := &Trace{BlockTokens: 16, FileRows: 3, ArrivalNS: []int64{0, 10, 20}, InputTokens: []int32{40, 16, 33}, OutputTokens: []int32{1, 1, 1}, Row: []int32{0, 1, 2}}
	for _, ids := range [][]uint64{{1, 7}, nil, {1, 7, 8}} {
		tr.ids.add(ids)
	}
	r, err := tr.Repeat(2)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "instants", r.ArrivalNS, []int64{0, 10, 20, 30, 40, 50})
	for i, blocks := range [][]uint64{{1, 7, 9}, {10}, {1, 7, 8}, {1, 7, 9}, {10}, {1, 7, 8}} {
		want(t, "blocks", r.Blocks(i), blocks)
	}
	if same, _ := tr.Repeat(1); same != tr {
		t.Error("once is another trace")
	}
}

func TestRepeatRefusesTooMuch(t *testing.T) {
	tr := &Trace{BlockTokens: 16, ArrivalNS: []int64{0, math.MaxInt64 / 3}, InputTokens: []int32{1, 1}, OutputTokens: []int32{1, 1}, Row: []int32{0, 1}}
	tr.ids.add(nil)
	tr.ids.add(nil)
	for _, n := range []int{0, -1, 2, math.MaxInt32} {
		if _, err := tr.Repeat(n); err == nil {
			t.Errorf("%d times was accepted", n)
		}
	}
}

func TestRepeatNeedsFreeIDs(t *testing.T) {
	tr := &Trace{BlockTokens: 16, ArrivalNS: []int64{0}, InputTokens: []int32{32}, OutputTokens: []int32{1}, Row: []int32{0}}
	tr.ids.add([]uint64{math.MaxUint64})
	if _, err := tr.Repeat(2); err == nil {
		t.Error("no id is left, yet no error")
	}
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
	was, is := reflect.ValueOf(*tr), reflect.ValueOf(*f)
	for c := range was.NumField() {
		column, name := was.Field(c), was.Type().Field(c).Name
		if column.Kind() != reflect.Slice || name == "Types" || column.Len() == 0 || name == "InputTokens" || name == "OutputTokens" {
			continue
		}
		for k, i := range order {
			if !is.Field(c).Index(k).Equal(column.Index(int(i))) {
				t.Fatalf("%s of request %d is not that of request %d", name, k, i)
			}
		}
	}
	for k, i := range order {
		if f.InputTokens[k] != input[i] || f.OutputTokens[k] != output[i] {
			t.Fatalf("request %d: %d and %d tokens, want %d and %d", k, f.InputTokens[k], f.OutputTokens[k], input[i], output[i])
		}
		all := tr.Blocks(int(i))
		if want := all[:min(len(all), blocksOf(input[i], tr.BlockTokens))]; !slices.Equal(f.Blocks(k), want) {
			t.Fatalf("request %d: blocks %v, want %v", k, f.Blocks(k), want)
		}
	}
	if !slices.Equal(tr.Blocks(0), blocks) {
		t.Error("the trace itself was changed")
	}
}
