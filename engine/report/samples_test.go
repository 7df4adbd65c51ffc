package report

import (
	"errors"
	"io/fs"
	"reflect"
	"testing"

	"github.com/fastreplay/fastreplay/engine/scrape"
)

func TestSamplesReadBack(t *testing.T) {
	dir := t.TempDir()
	w, err := NewSampleWriter(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	running := 3.0
	want := []scrape.Sample{
		{AtNS: -5, Phase: scrape.Before, Target: "http://a", URL: "http://a/metrics", TookMS: 1.5, Reading: scrape.Reading{Engine: "vllm", Engines: 2, Values: scrape.Values{Running: &running}}},
		{AtNS: 7, Phase: scrape.After, Target: "http://a", URL: "http://a/metrics", Error: "HTTP 500"},
	}
	for i := range want {
		w.Append(&want[i])
		if got, err := readSamples(dir); err != nil || !reflect.DeepEqual(got, want[:i+1]) { // on disk at once
			t.Errorf("%+v, %v; want %+v", got, err, want[:i+1])
		}
	}
	if _, err := NewSampleWriter(dir, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second one: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	w.Append(&want[0])
	if err := w.Close(); err == nil {
		t.Error("a sample was lost, and nobody says so")
	}
}
