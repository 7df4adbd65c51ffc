package bench

import (
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestAmplifyOnTime replays at four times the rate over the same span. Turns follow those of their own clone, and hardly a cache
// hit is missed without a reason.
func TestAmplifyOnTime(t *testing.T) {
	t.Parallel()
	const sample = "samples/bailian.jsonl"
	m := startMock(t, "--ttft", "4ms", "--itl", "100us")
	r := run(t, sample, "--url", m.url, "--amplify", "2", "--sessions", "gated", "--scale", "2")
	r.only(t, "ok")
	late, log := int64(0), m.stop(t)
	for i := range r.lines {
		if r.lines[i].seenLate(log, r.summary.Run.MonotonicStartNS) {
			late += r.lines[i].Prompt
		}
	}
	s := r.summary.PrefixCache.Shortfall
	if s == nil || s.EvictedTokens != 0 || float64(s.UnexplainedTokens) > 0.01*float64(r.summary.Tokens.Prompt)+float64(late) {
		t.Errorf("shortfall %+v; %d tokens of requests that came or were seen late", s, late)
	}
	tr, err := trace.Open(sample, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if turns := r.summary.Turns; turns == nil || turns.FollowUps != 2*int64(len(parents(t, sample))) || turns.Overtaking != 0 {
		t.Errorf("%+v", turns)
	}
	if len(r.lines) != 2*tr.Len() {
		t.Fatalf("%d requests of %d rows", len(r.lines), tr.Len())
	}
	last := int64(0)
	sessions := map[int64]bool{}
	for _, l := range r.lines {
		last = max(last, l.Planned)
		sessions[l.Session] = true
	}
	if a := r.summary.Amplify; len(sessions) != 2*int(a.Sessions) {
		t.Errorf("%d sessions of %d", len(sessions), a.Sessions)
	}
	if last < tr.SpanNS()/2 {
		t.Errorf("the last request was planned at %d ns of %d", last, tr.SpanNS()/2)
	}
}

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
