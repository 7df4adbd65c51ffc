package workload_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/engine/workload/workloadtest"
)

// TestVerify: each of the chosen prompts is counted once, exactly as it lies in its body, and the first row whose count is
// not what it should be is named.
func TestVerify(t *testing.T) {
	w := workloadtest.Work(t, 200)
	r := workloadtest.Builder(t, "", "a", 7)
	w.Images = workloadtest.Build(t, r, w)
	count := func(prompt []byte) (int, error) { return 1 + bytes.Count(prompt, []byte{','}), nil }
	for n, want := range map[int]int{0: 0, 1: 1, 64: 64, 199: 199, 200: 200, 1000: 200, -1: 200} {
		var seen atomic.Int64
		got, err := r.Verify(context.Background(), w, n, func(prompt []byte) (int, error) {
			seen.Add(1)
			return count(prompt)
		})
		if got != want || seen.Load() != int64(want) || err != nil {
			t.Errorf("n = %d: %d prompts, %d seen, %v; want %d", n, got, seen.Load(), err, want)
		}
	}
	w.Trace.Row[120], w.Trace.Row[3] = 3, 120 // in the file's order, row 3 is the first
	var bad [2][]byte
	for k, i := range []int{3, 120} {
		bad[k] = r.Source.Append(nil, workloadtest.Spec(w, i))
	}
	_, err := r.Verify(context.Background(), w, -1, func(prompt []byte) (int, error) {
		n, _ := count(prompt)
		if bytes.Equal(prompt, bad[0]) || bytes.Equal(prompt, bad[1]) {
			n++
		}
		return n, nil
	})
	wrong := (*workload.PromptError)(nil)
	if !errors.As(err, &wrong) || wrong.Row != 3 || wrong.Want != w.PromptTokens(120) || wrong.Got != wrong.Want+1 {
		t.Errorf("error %+v, %v; want row 3", wrong, err)
	}
}
