package recorder

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestOneSeriesOneRecorder: of recorders that begin at once one gets the file, and all others are refused.
func TestOneSeriesOneRecorder(t *testing.T) {
	for range 100 {
		path := filepath.Join(t.TempDir(), "day.jsonl")
		made := make([]*file, 8)
		errs := make([]error, len(made))
		var all sync.WaitGroup
		for i := range made {
			all.Go(func() { made[i], errs[i] = create(path, "", 0) })
		}
		all.Wait()
		began := 0
		for i, f := range made {
			if errs[i] != nil {
				expect.Equal(t, strings.Contains(errs[i].Error(), "another recorder writes "+path), true, "%v", errs[i])
				continue
			}
			began++
			expect.Equal(t, f.f.Close(), nil, "close")
		}
		expect.Equal(t, began, 1, "recorders of one series")
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
		expect.Equal(t, len(left)+len(hidden), 1, "files %q %q", left, hidden)
	}
}
