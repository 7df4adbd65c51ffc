package scrape

import (
	"fmt"
	"math"
	"os"
	"testing"
)

// unsaid stands for a quantity that the server does not have.
var unsaid = math.NaN()

// TestServers reads pages as servers of each kind write them: names, labels and numbers are those of their sources.
func TestServers(t *testing.T) {
	for _, c := range []struct {
		page, engine string
		engines      int
		want         [Quantities]float64
		mostKV       float64
	}{
		{"vllm", "vllm", 2, [Quantities]float64{12, 3, 0.5, 500010, 1000021, 4, 1000021, 100, 46}, 0.75},
		{"vllm_v0", "vllm", 1, [Quantities]float64{2, 1, 0.5, unsaid, unsaid, 6, 100, 50, 5}, 0.5},
		{"sglang", "sglang", 2, [Quantities]float64{13, 2, 0.4, 3168, 4096, 48, 4096, 7557572, 21}, 0.6},
		{"tgi", "tgi", 1, [Quantities]float64{4, 7, unsaid, unsaid, unsaid, unsaid, 1234, 8123, 11}, unsaid},
		{"trtllm", "trtllm", 1, [Quantities]float64{3, 1, 0.125, 250, 1000, unsaid, 1000, 80, 10}, 0.125},
		{"triton", "triton", 1, [Quantities]float64{6, 1, 0.5, unsaid, unsaid, unsaid, unsaid, unsaid, 18}, 0.5},
		{"dynamo", "dynamo", 1, [Quantities]float64{12, 2, unsaid, unsaid, unsaid, unsaid, 5000, 700, 10000}, unsaid},
	} {
		page, err := os.ReadFile("testdata/" + c.page + ".prom")
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader()
		for range 2 { // what is kept between pages changes nothing
			got, err := r.Read(page)
			if err != nil || got.Engine != c.engine || got.Engines != c.engines {
				t.Fatalf("%s: %d engines of %q, %v", c.page, got.Engines, got.Engine, err)
			}
			for q, want := range c.want {
				if v := *got.at(Quantity(q)); !same(v, want) {
					t.Errorf("%s: quantity %d is %s, want %v", c.page, q, show(v), want)
				}
			}
			if !same(got.MostKVUsage, c.mostKV) {
				t.Errorf("%s: most KV use %s, want %v", c.page, show(got.MostKVUsage), c.mostKV)
			}
		}
	}
}

func same(got *float64, want float64) bool {
	if got == nil || math.IsNaN(want) {
		return got == nil && math.IsNaN(want)
	}
	return math.Abs(*got-want) < 1e-9
}

func show(v *float64) string {
	if v == nil {
		return "unsaid"
	}
	return fmt.Sprint(*v)
}

// TestPagesFollowEachOther: a reader keeps no value of an earlier page.
func TestPagesFollowEachOther(t *testing.T) {
	r := NewReader()
	for _, c := range []struct {
		page    string
		engine  string
		running float64
	}{
		{"vllm:num_requests_running{engine=\"0\"} 5\nvllm:num_requests_running{engine=\"1\"} 6\n", "vllm", 11},
		{"vllm:num_requests_running{engine=\"1\"} 2\n", "vllm", 2},
		{"sglang:num_running_reqs 3\n", "sglang", 3},
		{"up 1\n", "", unsaid},
		{"vllm:num_requests_running NaN\n", "", unsaid},
		{"vllm:num_requests_running +Inf\n", "", unsaid},
		{"vllm:num_requests_running -1\n", "", unsaid},
		{"vllm:num_requests_running{engine=\"0\"} -1\nvllm:num_requests_running{engine=\"1\"} 6\n", "vllm", 6},
		{"vllm:num_requests_running{engine=\"0\"} 1e308\nvllm:num_requests_running{engine=\"1\"} 1e308\n", "", unsaid},
		{"vllm:num_requests_running 0\n", "vllm", 0},
		{"vllm:num_requests_running{engine=\"0\"} 1\n", "vllm", 1},
	} {
		got, err := r.Read([]byte(c.page))
		if err != nil || got.Engine != c.engine || !same(got.Running, c.running) {
			t.Errorf("%q: %q running %s, %v; want %q, %v", c.page, got.Engine, show(got.Running), err, c.engine, c.running)
		}
	}
	if got, err := r.Read([]byte("<html>")); err == nil {
		t.Errorf("a web page: %+v", got)
	}
}

// TestUseOfTheCacheBelowNothing: such a gauge says nothing, beside another that does.
func TestUseOfTheCacheBelowNothing(t *testing.T) {
	got, err := NewReader().Read([]byte("vllm:num_requests_running 3\nvllm:kv_cache_usage_perc -1\n"))
	if err != nil || got.KVUsage != nil || got.MostKVUsage != nil || !same(got.Running, 3) {
		t.Errorf("KV use %s, at most %s, running %s, %v", show(got.KVUsage), show(got.MostKVUsage), show(got.Running), err)
	}
}

// TestTheNextPageCostsLittle: the collector rests during a run.
func TestTheNextPageCostsLittle(t *testing.T) {
	page, err := os.ReadFile("testdata/vllm.prom")
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader()
	read := func() {
		if _, err := r.Read(page); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n > 2*float64(Quantities) {
		t.Errorf("%v allocations a page; want a few for what is returned", n)
	}
}

func BenchmarkRead(b *testing.B) {
	one, err := os.ReadFile("testdata/vllm.prom")
	if err != nil {
		b.Fatal(err)
	}
	var page []byte
	for len(page) < 300<<10 {
		page = append(page, one...)
	}
	r := NewReader()
	b.ReportAllocs()
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if got, err := r.Read(page); err != nil || *got.Running != 12 {
			b.Fatal(got, err)
		}
	}
}
