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
