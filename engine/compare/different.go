package compare

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// DifferentError is why two runs cannot be compared request by request: what each of them was sent, where it differs.
type DifferentError struct {
	A, B        string   // directories
	Differences []string // such as: seed: 1 and 2
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("%s and %s were sent different workloads (%s); replay the same one, or compare distributions alone with --anyway",
		e.A, e.B, strings.Join(e.Differences, "; "))
}

// workloadOptions are the flags that decide what is sent and when.
func workloadOptions() []string {
	return []string{
		"format", "fields", "time-unit", "block-tokens", "bad-rows", "limit", "from", "to", "repeat", "too-long", "scale", "amplify", "rate",
		"ramp", "arrival", "concurrency", "duration", "sessions", "idle-cap", "answers", "history", "endpoint", "prompt", "tokenizer",
		"extra-inputs", "no-stream", "no-force-output", "seed", "cold", "chat-overhead",
	}
}

// sameWorkload returns a *DifferentError if the fingerprints differ, or what paces a closed loop, which no fingerprint has. Without both
// fingerprints, as after a kill, what is known of the workloads decides; then sure is false.
func sameWorkload(a, b *run) (sure bool, err error) {
	one, other := a.summary.Workload.Fingerprint, b.summary.Workload.Fingerprint
	found := differences(a.summary, b.summary)
	if one == other && one != "" {
		found = slices.DeleteFunc(found, func(what string) bool {
			return !slices.ContainsFunc([]string{"pace:", "--concurrency:", "--sessions:"}, func(key string) bool { return strings.HasPrefix(what, key) })
		})
		if len(found) == 0 {
			return true, nil
		}
	}
	if (one == "" || other == "") && len(found) == 0 {
		return false, nil
	}
	if len(found) == 0 {
		found = []string{"the bytes of the requests: the content of the trace file, or what the chat template adds to a prompt, changed"}
	}
	return false, &DifferentError{a.dir, b.dir, found}
}

// differences names what differs in two workloads.
func differences(a, b *metrics.Summary) (found []string) {
	differ := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			found = append(found, fmt.Sprintf("%s: %v and %v", name, cmp.Or(a, any("not given")), cmp.Or(b, any("not given"))))
		}
	}
	differ("trace", a.Workload.Trace, b.Workload.Trace)
	differ("rows of the trace", a.Workload.Rows, b.Workload.Rows)
	differ("requests", a.Workload.Requests, b.Workload.Requests)
	differ("input tokens", a.Workload.InputTokens, b.Workload.InputTokens)
	differ("output tokens", a.Workload.OutputTokens, b.Workload.OutputTokens)
	differ("tokens of prompts that are shorter than the chat template", a.Workload.ShortSurplus, b.Workload.ShortSurplus)
	differ("the servers' context", a.Workload.Context, b.Workload.Context)
	differ("pace", a.Run.Pace, b.Run.Pace)
	differ("API", a.Run.API, b.Run.API)
	differ("model", a.Run.Model, b.Run.Model)
	for _, name := range workloadOptions() {
		differ("--"+name, a.Run.Options[name], b.Run.Options[name])
	}
	return found
}
