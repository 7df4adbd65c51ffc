package bench

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestAmplify replays a load three times over, one request at a time. The server finds in its cache exactly what an ideal one
// would have had. Each row is sent three times, from three conversations.
func TestAmplify(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{"samples/bailian.jsonl", "samples/azure.csv"} {
		t.Run(sample, func(t *testing.T) {
			m := startMock(t, "--ttft", "0s", "--itl", "0s")
			r := run(t, sample, "--url", m.url, "--amplify", "3", "--limit", "120", "--concurrency", "1")
			r.verdict(t)
			r.only(t, "ok")
			hits := int64(0)
			times := map[int64]int{}
			for _, l := range r.lines {
				times[l.Row]++
				hits += l.Cached
				if l.Cached != l.Expected {
					t.Errorf("row %d: %d tokens cached, want %d", l.Row, l.Cached, l.Expected)
				}
			}
			if len(r.lines) != 360 || len(times) != 120 {
				t.Errorf("%d requests of %d rows", len(r.lines), len(times))
			}
			for row, n := range times {
				if n != 3 {
					t.Errorf("row %d was sent %d times", row, n)
				}
			}
			if s := r.summary.PrefixCache.Shortfall; s == nil || s.Tokens != 0 {
				t.Errorf("shortfall %+v", s)
			}
			if a := r.summary.Amplify; a == nil || a.Factor != 3 || a.Before.Requests != 120 || a.After.Requests != 360 || (hits > 0) != (a.After.HitRatio != nil && *a.After.HitRatio > 0) {
				t.Errorf("%+v", a)
			}
			for _, said := range []string{"  amplified       3 times ", "load ×3", "options.amplify 3"} { // before the run, and on the page after it
				if !strings.Contains(r.stderr, said) {
					t.Errorf("the run does not say %q:\n%s", said, r.stderr)
				}
			}
			r.join(t, m.stop(t))
		})
	}
}

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
