package metrics

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// oneMachine is what one machine would say of a fact in place of several, by its key in summary.json; it is written by
// hand, and knows no tags. Of a distribution no machine can say anything: it is that of the machine with the largest
// p99.
var oneMachine = map[string]string{
	"run.duration_s": "largest", "run.partial": "any", "run.sender_died": "same", "run.primer_failed": "same", "run.cut": "any",
	"idle_cuts.system": "total", "idle_cuts.system_s": "total", "idle_cuts.trees": "total", "idle_cuts.trees_s": "total",
	"requests.early": "total", "requests.unwritten": "total", "tokens.prompt_mismatches": "total", "tokens.over_long": "total", "tokens.over_long_tokens": "total",
	"prefix_cache.above_ideal_tokens": "total", "prefix_cache.above_ideal_requests": "total", "prefix_cache.overtaken_tokens": "total",
	"lateness.reading": "largest of each", "answer_models": "same",
	"connections.dialled": "total", "connections.not_ready": "total", "connections.closed_idle": "total", "connections.closed_early": "total",
	"connections.no_resources": "total",
	"writes.whole":             "total", "writes.partial": "total",
	"client.cpu_s": "total", "client.max_rss_bytes": "largest", "client.gc_cycles": "total", "client.senders": "total", "client.sender_process": "all", "client.realtime": "all",
	"client.spin_us": "largest", "client.load_s": "largest", "client.prebuild_s": "largest", "client.wire_bytes": "total", "client.answer_wait_s": "total", "client.receive_lag_us": "worst",
	"client.stolen_s": "total", "client.stolen_share": "largest", "client.stolen_share_worst_second": "largest",
	"client.throttled_s": "total", "client.run_queue_delay_s": "total", "client.sender_run_queue_delay_s": "total",
	"client.kernel_timestamps.received": "all", "client.kernel_timestamps.sent": "all", "client.kernel_timestamps.reads": "total", "client.kernel_timestamps.unstamped_reads": "total",
	"client.kernel_timestamps.ring": "all", "client.kernel_timestamps.ring_missed_reads": "total", "client.kernel_timestamps.ring_lost": "total",
	"client.kernel_timestamps.dropped": "total", "client.kernel_timestamps.clock_steps": "total", "client.kernel_timestamps.largest_step_ms": "largest",
	"client.local_servers.processes": "same", "client.local_servers.waited_s": "largest", "client.local_servers.unknown": "same",
	"cap.in_flight": "total", "cap.held_back": "total", "cap.held_ms": "worst",
	"turns.sessions": "same", "turns.followup_turns": "total", "turns.overtaking": "total", "turns.overtaking_ms": "worst", "turns.later_ms": "worst",
	"history.turns": "total", "history.live": "total", "history.partly": "total", "history.recorded": "total", "history.answers": "total", "history.make_us": "worst",
	"history.not_live.late": "total", "history.not_live.failed": "total", "history.not_live.no_text": "total", "history.not_live.tool_calls": "total", "history.not_live.apart": "total",
	"answers.mode": "same", "answers.forced_tokens": "total", "answers.carried_turns": "total", "answers.carried_tokens": "total", "answers.recorded_input_tokens": "total",
	"build_ahead.window_bytes": "total", "build_ahead.least_lead_ms": "least", "build_ahead.late": "total",
}

// facts are those of a client that merges meet, by key; distributions by their p99.
type facts map[string]any

// eachFact calls f with each field of v that a merge of clients meets, by its key.
func eachFact(v reflect.Value, key string, f func(key string, field reflect.Value)) {
	for i := range v.NumField() {
		t, value := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(t.Tag.Get("json"), ",")
		at := strings.TrimPrefix(key+"."+name, ".")
		if t.Anonymous {
			at = key
		}
		switch rule := t.Tag.Get("merge"); {
		case rule == "records" || rule == "none" || strings.HasSuffix(rule, ",records"):
		case rule != "each":
			f(at, value)
		case value.Kind() != reflect.Pointer:
			eachFact(value, at, f)
		default:
			if value.IsNil() {
				value.Set(reflect.New(t.Type.Elem()))
			}
			eachFact(value.Elem(), at, f)
		}
	}
}

// random fills in every fact; what a machine need not know is null now and then.
func random(rng *rand.Rand) *Summary {
	s := new(Summary)
	eachFact(reflect.ValueOf(s).Elem(), "", func(key string, field reflect.Value) {
		number := rng.Int64N(2000) - 500
		switch field.Interface().(type) {
		case bool:
			field.SetBool(number > 0)
		case string:
			field.SetString("gated")
		case int, int64:
			field.SetInt(number)
		case float64:
			field.SetFloat(float64(number))
		case *float64:
			if number%3 != 0 {
				field.Set(reflect.ValueOf(new(float64(number))))
			}
		case *stats.Percentiles:
			if number%3 != 0 {
				field.Set(reflect.ValueOf(&stats.Percentiles{P99: float64(number), Count: number}))
			}
		case []Unsafe:
			for _, p := range []string{"p50", "p99"}[:rng.IntN(3)] {
				field.Set(reflect.Append(field, reflect.ValueOf(Unsafe{Metric: "itl", Percentile: p, EffectMS: float64(number)})))
			}
		case []AnswerModel:
			field.Set(reflect.ValueOf([]AnswerModel{{Named: "gated"}}))
		default:
			panic(key + ": a kind of fact that this test does not know")
		}
	})
	return s
}

// factsOf are the facts of a summary; what is null has no key.
func factsOf(s *Summary) facts {
	all := facts{}
	eachFact(reflect.ValueOf(s).Elem(), "", func(key string, field reflect.Value) {
		switch v := field.Interface().(type) {
		case *float64:
			if v != nil {
				all[key] = *v
			}
		case *stats.Percentiles:
			if v != nil {
				all[key] = v.P99
			}
		case []Unsafe:
			for _, u := range v {
				all[key+" "+u.Percentile] = u.EffectMS
			}
		case []AnswerModel:
			all[key] = v[0].Named
		case int:
			all[key] = float64(v)
		case int64:
			all[key] = float64(v)
		default:
			all[key] = v
		}
	})
	return all
}

// wholeSaid is what one machine would have said in place of these.
func wholeSaid(machines []facts) facts {
	whole := facts{}
	for key, how := range oneMachine {
		var numbers []float64
		every, some := true, false
		for _, m := range machines {
			for _, p := range []string{" p50", " p99"} {
				if effect, found := m[key+p].(float64); found {
					before, known := whole[key+p].(float64)
					if whole[key+p] = effect; known {
						whole[key+p] = max(before, effect)
					}
				}
			}
			switch v := m[key].(type) {
			case float64:
				numbers = append(numbers, v)
			case bool:
				every, some = every && v, some || v
			case string:
				whole[key] = v
			}
		}
		total := 0.0
		for _, n := range numbers {
			total += n
		}
		switch {
		case how == "all":
			whole[key] = every
		case how == "any":
			whole[key] = some
		case how == "same" || len(numbers) == 0:
		case how == "total":
			whole[key] = total
		case how == "least":
			whole[key] = slices.Min(numbers)
		default:
			whole[key] = slices.Max(numbers)
		}
	}
	return whole
}

// TestFactsOfMachines: merged, each fact of several clients is what one machine would have said, whatever their number
// and order.
func TestFactsOfMachines(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var machines []facts
		sum := new(Summary)
		for k := range 1 + rng.IntN(5) {
			s := random(rng)
			before, _ := json.Marshal(s)
			machines = append(machines, factsOf(s))
			sum.MergeFacts(s, k == 0)
			if after, _ := json.Marshal(s); string(after) != string(before) {
				t.Fatalf("seed %d: what was added has changed", seed)
			}
			t.Cleanup(func() {
				if after, _ := json.Marshal(s); string(after) != string(before) {
					t.Errorf("seed %d: what was added has changed later", seed)
				}
			})
		}
		counted := &Summary{Requests: Requests{OK: 7, Early: 1}, Answers: &Answers{WrongTokens: 3}}
		counted.SetFacts(sum)
		if counted.Requests.OK != 7 || counted.Answers.WrongTokens != 3 || sum.Answers.WrongTokens != 0 {
			t.Fatalf("seed %d: what was counted has changed: %+v", seed, counted)
		}
		want := wholeSaid(machines)
		for _, got := range []facts{factsOf(sum), factsOf(counted)} {
			for key := range want {
				expect.Equal(t, got[key], want[key], "seed %d: %s of %d machines", seed, key, len(machines))
			}
			expect.Equal(t, len(got), len(want), "seed %d: facts", seed)
		}
	}
}

// TestMergeTags: each field that a merge meets has a tag that fits it, and each fact of clients is in the test's own
// table.
func TestMergeTags(t *testing.T) {
	t.Parallel()
	numbers := []string{"sum", "max", "min"}
	fitting := map[reflect.Kind][]string{
		reflect.Bool: {"and", "or"}, reflect.String: {"first"}, reflect.Int: numbers, reflect.Int64: numbers, reflect.Float64: numbers,
		reflect.Struct: {"each", "first"}, reflect.Map: {"union"},
	}
	rules := map[reflect.Type][]string{
		reflect.TypeFor[stats.Percentiles](): {"worst"}, reflect.TypeFor[stats.Distribution](): {"union"}, reflect.TypeFor[[]Unsafe](): {"union"}, reflect.TypeFor[[]AnswerModel](): {"first"},
	}
	var check func(of reflect.Type)
	check = func(of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			rule, counted, _ := strings.Cut(f.Tag.Get("merge"), ",")
			kind := f.Type
			for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Array {
				kind = kind.Elem()
			}
			want, special := rules[kind]
			if !special {
				want = fitting[kind.Kind()]
			}
			if !slices.Contains(append(want, "none", "records"), rule) || counted != "" && counted != "records" {
				t.Errorf("%s.%s has the merge tag %q; want one of %v, none or records", of, f.Name, f.Tag.Get("merge"), want)
			}
			if rule == "each" {
				check(kind)
			}
		}
	}
	check(reflect.TypeFor[Summary]())
	here := map[string]bool{}
	eachFact(reflect.ValueOf(new(Summary)).Elem(), "", func(key string, _ reflect.Value) {
		if here[key] = true; oneMachine[key] == "" {
			t.Errorf("what would one machine say of %s?", key)
		}
	})
	for key := range oneMachine {
		if !here[key] {
			t.Errorf("%s is no fact", key)
		}
	}
}

// TestThrottledMachines: that one of four clients was stopped for a share of its time is no more than a quarter of that
// for all of them.
func TestThrottledMachines(t *testing.T) {
	t.Parallel()
	s := Summary{Run: Run{DurationS: 100}}
	s.Client.ThrottledS = new(40.0)
	expect.Equal(t, s.ThrottledShare(), 0.4, "one machine")
	for range 4 {
		s.Shards = append(s.Shards, Shard{State: ShardWhole})
	}
	s.Shards = append(s.Shards, Shard{State: ShardMissing})
	expect.Equal(t, s.ThrottledShare(), 0.1, "four machines")
}
