package bench

import (
	"fmt"
	"testing"
)

// TestTargetsFile: weights in a file decide how many requests each server gets.
func TestTargetsFile(t *testing.T) {
	t.Parallel()
	a, b := startMock(t), startMock(t)
	file := newFile(t, "targets.txt", fmt.Sprintf("# two of them\n\n%s\n %s 3 # the larger one\n", a.url, b.url))
	r := run(t, "samples/bailian.jsonl", "--scale", "8", "--targets", file)
	r.only(t, "ok")
	byTarget := map[string]int{}
	for _, l := range r.lines {
		byTarget[l.Target]++
	}
	if byTarget[a.url] != 75 || byTarget[b.url] != 225 {
		t.Errorf("%v, want one in four and three in four", byTarget)
	}
}
