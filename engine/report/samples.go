package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fastreplay/fastreplay/engine/scrape"
)

// SampleWriter writes server_metrics.jsonl, each sample at once, so that it outlives us. One goroutine at a time uses it.
type SampleWriter struct {
	file *keptFile
	err  error // the first
}

// NewSampleWriter creates server_metrics.jsonl in dir, which must not have one. onRemoved is as in WriterOptions.
func NewSampleWriter(dir string, onRemoved func(name string)) (*SampleWriter, error) {
	f, err := newKeptFile(filepath.Join(dir, ServerMetricsName), os.O_APPEND, onRemoved)
	if err != nil {
		return nil, err
	}
	return &SampleWriter{file: f}, nil
}

// Append writes a line. Close tells whether that failed.
func (w *SampleWriter) Append(s *scrape.Sample) {
	line, err := json.Marshal(s)
	if err = errors.Join(err, w.file.restore()); err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	w.keep(err)
}

// Close closes the file and returns the first error of all.
func (w *SampleWriter) Close() error {
	w.keep(w.file.Close())
	return w.err
}

func (w *SampleWriter) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

// readSamples reads server_metrics.jsonl, if there is one. A last line that was not finished does not count.
func readSamples(dir string) (samples []scrape.Sample, err error) {
	name := filepath.Join(dir, ServerMetricsName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		var m scrape.Sample
		if err := json.Unmarshal(line, &m); err != nil {
			if line[len(line)-1] != '\n' {
				break
			}
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		samples = append(samples, m)
	}
	return samples, nil
}
