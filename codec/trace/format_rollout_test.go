package trace

import (
	"strings"
	"testing"
)

const rolloutFile = `{"global_prefix_len":128}
{"group":"a","stream":0,"prompt_len":200,"out_lens":[30,50,9],"obs_lens":[60,1]}
{"group":"a","stream":"x","prompt_len":200,"out_lens":[200],"obs_lens":[5]}
{"group":2,"stream":0,"prompt_len":300,"out_lens":[10,20],"obs_lens":[0]}
`

// TestReadRollout: streams of a group share whole blocks of their prompt, groups those of the global prefix, and each
// request of a stream those of the one before and of the answer to it.
func TestReadRollout(t *testing.T) {
	tr := read(t, rolloutFile, Options{Strict: true})
	if tr.Format != "rl_rollout" || !tr.Untimed || tr.FileRows != 6 || len(tr.Lint.Notes()) != 0 {
		t.Errorf("%s, untimed %v, %d rows, notes %q", tr.Format, tr.Untimed, tr.FileRows, tr.Lint.Notes())
	}
	want(t, "InputTokens", tr.InputTokens, []int32{200, 290, 341, 200, 300, 310})
	want(t, "OutputTokens", tr.OutputTokens, []int32{30, 50, 9, 200, 10, 20})
	want(t, "Jobs", tr.Jobs, []string{"a", "2"})
	common := func(i, j int) int { return alike(tr.Blocks(i), tr.Blocks(j)) }
	blocks := []int{}
	for i := range tr.Len() {
		blocks = append(blocks, len(tr.Blocks(i)))
	}
	want(t, "blocks of 64 tokens", blocks, []int{3, 4, 5, 3, 4, 4})
	// The answer ends at token 230, in the fourth block, so that one is another's.
	want(t, "blocks in common", []int{common(0, 1), common(1, 2), common(0, 3), common(1, 3), common(0, 4), common(4, 5)}, []int{3, 4, 3, 3, 2, 4})
	var waits []string
	for i := range tr.Len() {
		for _, d := range tr.Graph(tr.Len()).Of(i) {
			waits = append(waits, tr.SessionName(i)+" after "+tr.SessionName(int(d.On)))
			if d != on(int32(i-1), 0, OnCompletion, Sequence) {
				t.Errorf("request %d waits for %+v", i, d)
			}
		}
	}
	want(t, "waits", waits, []string{"a/0 after a/0", "a/0 after a/0", "2/0 after 2/0"})
	smaller := read(t, rolloutFile, Options{BlockTokens: 16})
	if n := alike(smaller.Blocks(0), smaller.Blocks(1)); n != 12 || len(smaller.Blocks(1)) != 18 {
		t.Errorf("%d of %d blocks of 16 tokens are those of the first prompt, want 12 of 18", n, len(smaller.Blocks(1)))
	}
}

func FuzzRollout(f *testing.F) {
	f.Add([]byte(rolloutFile))
	for line := range strings.Lines(rolloutFile) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if tr, err := Read(strings.NewReader(string(file)), "f", Options{Format: "rl_rollout", Lenient: true}); err == nil {
			checkInvariants(t, tr)
		}
	})
}
