package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/sched"
)

func TestParseWrk(t *testing.T) {
	const report = `Running 3s test @ http://127.0.0.1:1
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms    2.03ms  40.11ms   95.00%
  97671 requests in 3.00s, 12.11MB read
  Socket errors: connect 0, read 1, write 20, timeout 300
  Non-2xx or 3xx responses: 4000
Requests/sec:  32517.25
Transfer/sec:      4.03MB
`
	if perS, failed, err := parseWrk(report); err != nil || perS != 32517.25 || failed != 4321 {
		t.Errorf("got %v, %d, %v", perS, failed, err)
	}
	if _, _, err := parseWrk("unable to connect to 127.0.0.1:1 Connection refused\n"); err == nil {
		t.Error("no error where there is no rate")
	}
}

func TestParseCyclictest(t *testing.T) {
	got, err := parseCyclictest("# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\n000009 000002\n000012 000001\n# Total: 000000003\n")
	if want := []int64{9000, 9000, 12_000}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := parseCyclictest("nothing\n"); err == nil {
		t.Error("no error without a histogram")
	}
}

func TestParseBenchmarks(t *testing.T) {
	got := parseBenchmarks(`goos: linux
BenchmarkNext/whole-2         	     100	      1234 ns/op	 567.89 MB/s	  15800000 events/s	       0 B/op
BenchmarkRead 	   3	 1000 ns/op	 283 MB/s
PASS
`)
	want := []goBenchmark{
		{"Next/whole", map[string]float64{"ns/op": 1234, "MB/s": 567.89, "events/s": 15.8e6, "B/op": 0}},
		{"Read", map[string]float64{"ns/op": 1000, "MB/s": 283}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestWireBytes(t *testing.T) {
	for said, want := range map[string]float64{"      873 MB on the wire, built in memory": 873e6, "1.2 GB on the wire": 1.2e9, "0.5 kB on the wire": 500} {
		if got, ok := wireBytes(said); !ok || got != want {
			t.Errorf("%q: %v, %t; want %v", said, got, ok, want)
		}
	}
	if _, ok := wireBytes("nothing"); ok {
		t.Error("bytes found in nothing")
	}
}

func TestParseCPUTimes(t *testing.T) {
	if got, want := parseCPUTimes("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n"), (cpuTimes{all: 36, stolen: 8}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCPUModel(t *testing.T) {
	if got := cpuModel("processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\n", "?"); got != "Intel(R) Xeon(R)" {
		t.Errorf("got %q", got)
	}
	if got := cpuModel("processor\t: 0\n", "?"); got != "?" {
		t.Errorf("got %q", got)
	}
}

func at(ns int64) *int64 { return &ns }

// TestBursts: the last of a burst is the one that was sent last, whatever its place in the file.
func TestBursts(t *testing.T) {
	lines := []line{
		{PlannedNS: 100, SentNS: at(160), DriftNS: at(60), WrittenNS: at(165)},
		{PlannedNS: 100, SentNS: at(105), DriftNS: at(5), WrittenNS: at(130)},
		{PlannedNS: 100, SentNS: at(130), DriftNS: at(30), WrittenNS: at(155)},
		{PlannedNS: 900, SentNS: at(900), DriftNS: at(0), WrittenNS: at(910)},
	}
	last, ratios, err := burstsOf(lines)
	slices.Sort(last)
	if err != nil || !slices.Equal(last, []int64{0, 60}) || !slices.Equal(ratios, []float64{60.0 / 50}) {
		t.Errorf("got %v, %v, %v", last, ratios, err)
	}
	lines[2].WrittenNS = nil
	if _, _, err := burstsOf(lines); err == nil {
		t.Error("no error where a request was not written")
	}
}

func TestLiveStreams(t *testing.T) {
	lines := []line{
		{SentNS: at(0), LastTokenNS: at(10)}, {SentNS: at(5), LastTokenNS: at(15)}, {SentNS: at(10), LastTokenNS: at(20)}, {SentNS: at(1)},
		{SentNS: at(12), LastTokenNS: at(13)},
	}
	if got := liveStreams(lines); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
}

// TestErrorsOf: the client counts from its start, the server by the machine's clock.
func TestErrorsOf(t *testing.T) {
	chunks, err := parseChunks(strings.NewReader(chunkHead+"\n"+
		"7,0,100,130,1080\n7,1,150,160,1142\n7,2,200,260,1199\n3,0,300,310,1290\n"), "log")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		instant     func(chunk) int64
		first, gaps []int64
	}{
		{func(c chunk) int64 { return c.instantNS }, []int64{10, 20}, []int64{7, 12}},
		{func(c chunk) int64 { return c.readNS }, []int64{20, 50}, []int64{32, 43}},
	} {
		if e := errorsOf(chunks, 1000, c.instant); !slices.Equal(e.first, c.first) || !slices.Equal(e.gaps, c.gaps) {
			t.Errorf("got %+v, want %v and %v", e, c.first, c.gaps)
		}
	}
}

func TestParseChunksRefuses(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":             "",
		"another head":        "row,chunk\n",
		"a chunk not stamped": chunkHead + "\n1,0,2,3,\n",
		"too few cells":       chunkHead + "\n1,0,2,3\n",
		"no first chunk":      chunkHead + "\n1,1,2,3,4\n",
		"a gap":               chunkHead + "\n1,0,2,3,4\n1,2,2,3,4\n",
		"mixed rows":          chunkHead + "\n1,0,2,3,4\n2,1,2,3,4\n",
	} {
		if got, err := parseChunks(strings.NewReader(text), "log"); err == nil {
			t.Errorf("%s: %+v and no error", what, got)
		}
	}
}

// TestReadStream: token chunks count, the usage and the end do not; each has the server's stamp beside the reader's.
func TestReadStream(t *testing.T) {
	var stream strings.Builder
	for i := range 3 {
		fmt.Fprintf(&stream, `data: {"id":"x","choices":[{"index":0,"text":" a"}],"sent_ns":%d}`+"\n\n", 1_000_000*(i+1))
	}
	stream.WriteString(`data: {"choices":[],"usage":{"completion_tokens":3}}` + "\n\ndata: [DONE]\n\n")
	var l line
	if err := readStream(strings.NewReader(stream.String()), &l, sched.NewMonotonic()); err != nil {
		t.Fatal(err)
	}
	if l.Chunks != 3 || len(l.stamped) != 3 || l.LastTokenNS == nil || *l.LastTokenNS != l.stamped[2].instantNS {
		t.Fatalf("got %+v", l)
	}
	for i, c := range l.stamped {
		if c.number != int64(i) || c.sentNS != 1_000_000*int64(i+1) || c.readNS != c.instantNS || i > 0 && c.instantNS < l.stamped[i-1].instantNS {
			t.Errorf("chunk %d is %+v", i, c)
		}
	}
}
