package bench

import (
	"testing"
)

// TestAmplifyTwice: equal seeds send the same bytes at the same instants, and once is the load itself.
func TestAmplifyTwice(t *testing.T) {
	t.Parallel()
	amplified := func(args ...string) string { return fingerprint(t, with(args, "samples/bailian.jsonl")...) }
	plain, once := amplified(), amplified("--amplify", "1")
	a, b, half := amplified("--amplify", "2.5"), amplified("--amplify", "2.5"), amplified("--amplify", "0.5")
	if plain == "" || plain != once || a != b || a == plain || half == plain || half == a {
		t.Errorf("fingerprints: %q as it is, %q once, %q and %q amplified, %q thinned", plain, once, a, b, half)
	}
}
