package inspect

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestLoad: the load alone is what the whole analysis says, of traces with and without blocks and times.
func TestLoad(t *testing.T) {
	for path, has := range map[string]struct{ times, blocks bool }{
		"bailian.jsonl": {true, true}, "mooncake.jsonl": {true, true}, "azure.csv": {true, false}, "sharegpt.json": {false, false}, "batch.jsonl": {false, false},
	} {
		tr, err := trace.Open(samples+path, trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := Analyse(tr, Options{})
		want := metrics.Load{Requests: int64(tr.Len())}
		if has.times {
			want.SpanS, want.RequestsPerS, want.Peak, want.GapCV = r.Arrivals.SpanS, r.Arrivals.RowsPerS, &r.Arrivals.PeakRows, r.Arrivals.GapCV
		}
		if has.blocks {
			want.ReuseP50, want.ReuseP90, want.HitRatio = &r.Reuse.Tokens.P50, &r.Reuse.Tokens.P90, &r.Cache.Infinite.Tokens
		}
		if got := Load(tr); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(r.Load(), want) {
			t.Errorf("%s: %+v and %+v, want %+v", path, got, r.Load(), want)
		}
	}
}

// TestAmplifiedPage: what was recorded and what it became stand on top of every page, and nowhere for a load as recorded.
func TestAmplifiedPage(t *testing.T) {
	r := sample(t, samples+"bailian.jsonl", Options{})
	if page := printed(t, 80, r); strings.Contains(page, "amplified") {
		t.Errorf("a load as recorded:\n%s", page)
	}
	before := r.Load()
	hits, cv := 0.5, 2.5
	before.HitRatio, before.GapCV, before.Requests, before.ReuseP90 = &hits, &cv, 75, nil
	r.Amplify = &metrics.Amplify{Factor: 4, Sessions: 40, Inferred: true, SharedBlocks: 3, Before: before, After: r.Load()}
	page := printed(t, 80, r)
	head, _, _ := strings.Cut(page, "  rows ")
	for _, line := range []string{
		"  amplified       4 times 40 conversations   found by their blocks\n",
		"                  3 leading blocks shared by all clones\n",
		"    requests                                75           300\n",
		"    interarrival CV                       2.50          1.77\n",
		"    reuse distance p90, tokens               –          105k\n",
		"    ideal cache hits, of tokens        50.00 %       58.84 %\n",
	} {
		if !strings.Contains(head, line) {
			t.Errorf("the page does not begin with %q:\n%s", line, page)
		}
	}
	if !strings.Contains(page, "copies of 75 of 300 in the file") {
		t.Errorf("rows:\n%s", page)
	}
	var html bytes.Buffer
	if err := HTML(&html, []*Report{r}); err != nil {
		t.Fatal(err)
	}
	for _, cell := range []string{"before --amplify", "50.00 %", "2.50"} {
		if !strings.Contains(html.String(), cell) {
			t.Errorf("the HTML lacks %q", cell)
		}
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"amplify":{"factor":4,"seed":0,"sessions":40,"inferred":true,"shared_blocks":3,"before":{"requests":75,`) {
		t.Errorf("%s: %v", text, err)
	}
	one := metrics.Amplify{Factor: 0.5, Sessions: 75, Inferred: true, Before: before, After: before}
	if text := Amplified(&one, 0); !strings.HasPrefix(text, "  amplified       0.5 times 75 requests\n") {
		t.Errorf("%s", text)
	}
}
