package collect

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
)

func writeLog(t *testing.T, c *Collector) []byte {
	t.Helper()
	var b bytes.Buffer
	start := time.Unix(1_700_000_000, 250e6)
	must.Do(t, c.WriteHistograms(&b, start, start.Add(3*time.Second)))
	return b.Bytes()
}

func readAll(log []byte) (all []Tagged, err error) {
	for h, err := range Histograms(log) {
		if err != nil {
			return all, err
		}
		all = append(all, h)
	}
	return all, nil
}

func TestHistogramsRoundTrip(t *testing.T) {
	all := workload(11, 2000, 2)
	c := collect(all, []string{"http://127.0.0.1:8000", "http://odd,name with%20space/v1"})
	read := must.Have(readAll(writeLog(t, c)))(t)
	byName := map[string]*hdrhistogram.Histogram{}
	for _, h := range read {
		byName[h.Metric+" "+h.Target] = h.Values
	}
	want := 0
	_, targets := c.merged()
	for i := range targets {
		for k, l := range latencies {
			values, early := targets[i].Latencies[k].Histograms()
			for suffix, h := range map[string]*hdrhistogram.Histogram{"": values, "_early": early} {
				if h == nil || h.TotalCount() == 0 {
					continue
				}
				want++
				name := l.Key + suffix + " " + c.urls[i]
				got := byName[name]
				if got == nil || !got.Equals(h) {
					t.Errorf("%s did not come back", name)
				} else if got.StartTimeMs() != 1_700_000_000_250 || got.EndTimeMs() != 1_700_000_003_250 {
					t.Errorf("%s: from %d to %d", name, got.StartTimeMs(), got.EndTimeMs())
				}
			}
		}
	}
	if len(read) != want || want < 14 {
		t.Errorf("%d histograms came back, want %d", len(read), want)
	}
	if byName["drift_early http://127.0.0.1:8000"] == nil {
		t.Error("negative drifts are not in the log")
	}
}

func TestHistogramsOfNothing(t *testing.T) {
	text := writeLog(t, NewCollector(urls(1)))
	if got, err := readAll(text); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if !strings.HasPrefix(string(text), "#[Histogram log format version 1.3]\n") {
		t.Errorf("got %s", text)
	}
}

func TestReadHistogramsOfABrokenFile(t *testing.T) {
	c := NewCollector(urls(1))
	r := answered()
	c.Add(r, 0)
	text := writeLog(t, c)
	whole := must.Have(readAll(text))(t)
	for n := range text { // every cut: an error or fewer histograms, no panic
		if got, err := readAll(text[:n]); err == nil && len(got) >= len(whole) && n < len(text)-1 {
			t.Errorf("cut at %d of %d: all %d histograms", n, len(text), len(got))
		}
	}
}

func TestWriteHistogramsReportsTheWriter(t *testing.T) {
	c := NewCollector(urls(1))
	c.Add(&record.Record{SentNS: 1}, 0)
	full := errors.New("full")
	for n := range 12 {
		if err := c.WriteHistograms(&failing{after: n, err: full}, time.Unix(1, 0), time.Unix(2, 0)); n < 5 && !errors.Is(err, full) {
			t.Errorf("after %d writes: %v", n, err)
		}
	}
}

// failing is a writer that takes so many writes and no more.
type failing struct {
	after int
	err   error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, f.err
	}
	return len(p), nil
}
