package record

import (
	"bytes"
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// example is the record that the documentation of requests.jsonl shows.
func example() *Record {
	r := new(Record)
	r.Clear()
	r.Row, r.RequestID, r.Session, r.Turn = 0, "run-0", 159, 1
	r.Target, r.Endpoint = "http://127.0.0.1:8000", "127.0.0.1:8000"
	r.PlannedNS, r.SentNS, r.ConnWaitNS, r.WrittenNS, r.WrittenFirstBytes = 0, 412, 0, 15400, 3391
	r.SentAt = Wall(time.Date(2026, 1, 2, 15, 4, 5, 412_000, time.UTC).UnixMicro())
	r.HeadersNS, r.FirstTokenNS, r.FirstTextNS, r.FirstOutputNS, r.LastTokenNS, r.DoneNS = 51000000, 51200000, 51200000, 71200000, 96000000, 96100000
	r.InputTokens, r.PromptTokens, r.OutputTokens, r.CompletionTokens = 521, 521, 132, 132
	r.TokensFrom, r.Chunks, r.FinishReason = TokensFromUsage, 132, "length"
	r.BuiltTokens = r.InputTokens
	r.ExpectedCachedTokens, r.CachedTokens, r.LeastCachedTokens, r.MostCachedTokens = 512, 512, 512, 512
	r.Status, r.Outcome, r.Resent, r.BytesSent, r.BytesReceived = 200, OK, 0, 3391, 24310
	return r
}

const exampleLine = `{"row":0,"request_id":"run-0","session":159,"turn":1,"target":"http://127.0.0.1:8000","endpoint":"127.0.0.1:8000",` +
	`"planned_ns":0,"sent_ns":412,"sent_at":"2026-01-02T15:04:05.000412Z","drift_ns":412,"conn_wait_ns":0,"written_ns":15400,"written_first_bytes":3391,"departed_ns":null,"acked_ns":null,` +
	`"headers_ns":51000000,"first_token_ns":51200000,"first_text_ns":51200000,"first_output_ns":71200000,"last_token_ns":96000000,"done_ns":96100000,` +
	`"ttft_ms":51.199588,"ttfo_ms":71.199588,"tpot_ms":0.341985,"e2e_ms":95.999588,"recorded_input_tokens":521,"prompt_tokens":521,"recorded_output_tokens":132,` +
	`"completion_tokens":132,"tokens_from":"usage","chunks":132,"finish_reason":"length","expected_cached_tokens":512,` +
	`"cached_tokens":512,"status":200,"outcome":"ok","error":null,"resent":0,"bytes_sent":3391,"bytes_received":24310}` + "\n"

func TestAppendJSONExample(t *testing.T) {
	expect.Equal(t, string(example().AppendJSON(nil)), exampleLine)
	r := example()
	r.Type = "text"
	want := strings.Replace(exampleLine, `"turn":1,`, `"turn":1,"type":"text",`, 1)
	expect.Equal(t, string(r.AppendJSON([]byte("before "))), "before "+want, "with a type: %s", want)
}

func TestAppendJSONAbsent(t *testing.T) {
	var r Record
	r.Clear()
	want := `{"row":null,"request_id":null,"session":null,"turn":null,"target":null,"endpoint":null,"planned_ns":null,"sent_ns":null,"sent_at":null,` +
		`"drift_ns":null,"conn_wait_ns":null,"written_ns":null,"written_first_bytes":null,"departed_ns":null,"acked_ns":null,"headers_ns":null,` +
		`"first_token_ns":null,"first_text_ns":null,"first_output_ns":null,"last_token_ns":null,"done_ns":null,"ttft_ms":null,"ttfo_ms":null,"tpot_ms":null,"e2e_ms":null,` +
		`"recorded_input_tokens":null,"prompt_tokens":null,"recorded_output_tokens":null,"completion_tokens":null,"tokens_from":null,"chunks":0,` +
		`"finish_reason":null,"expected_cached_tokens":null,"cached_tokens":null,"status":null,"outcome":"not_sent","error":null,` +
		`"resent":0,"bytes_sent":0,"bytes_received":0}` + "\n"
	expect.Equal(t, string(r.AppendJSON(nil)), want)
}

// random returns a record whose every field is absent now and then.
func random(rng *rand.Rand) *Record {
	r := new(Record)
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int64:
			switch rng.IntN(4) {
			case 0:
				f.SetInt(None)
			case 1:
				f.SetInt(rng.Int64N(5))
			default:
				f.SetInt(rng.Int64N(4e12) - 1e6)
			}
		case reflect.String:
			f.SetString([]string{"", "plain", "a \"quoted\" \\ line\nwith\ttabs\r\x00\x1f\x7f", "日本語 ünï \u2028 😀"}[rng.IntN(4)])
		}
	}
	if r.Row == None {
		r.Row = 0
	}
	r.BuiltTokens, r.LeastCachedTokens, r.MostCachedTokens = r.InputTokens, r.ExpectedCachedTokens, r.ExpectedCachedTokens // no line has them
	r.FirstSlackNS, r.OutputSlackNS, r.LastSlackNS, r.AnswerModel = 0, 0, 0, ""
	if r.AskedChoices = 0; r.Choices < 2 || rng.IntN(2) == 0 {
		r.Choices, r.DecodeNS = 0, None
	}
	if rng.IntN(2) == 0 {
		r.SentAt = Wall(rng.Int64N(4e15)) // up to 2096
	}
	r.Outcome = Outcome(rng.IntN(Outcomes))
	r.TokensFrom = []TokensFrom{TokensUnknown, TokensFromUsage, TokensFromChunks}[rng.IntN(3)]
	return r
}

// ms returns to - from in milliseconds as an exact fraction, rounded half away from zero to the nanosecond after the
// division.
func ms(from, to, divisor int64) string {
	if from == None || to == None || divisor < 1 {
		return "null"
	}
	ns := new(big.Rat).SetFrac64(to-from, divisor)
	whole, ok := new(big.Int).SetString(ns.FloatString(0), 10)
	if !ok {
		panic("not a number")
	}
	return new(big.Rat).SetFrac(whole, big.NewInt(1e6)).FloatString(6)
}

// TestAppendJSONAgainstOracle compares each value with what encoding/json reads, and the derived ones with exact
// arithmetic.
func TestAppendJSONAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		r := random(rng)
		line := r.AppendJSON(nil)
		var got map[string]json.RawMessage
		must.Do(t, json.Unmarshal(line, &got), line)
		want := map[string]string{
			"row": num(r.Row), "request_id": str(r.RequestID), "session": num(r.Session), "turn": num(r.Turn), "target": str(r.Target),
			"endpoint": str(r.Endpoint), "planned_ns": num(r.PlannedNS), "sent_ns": num(r.SentNS), "sent_at": date(r.SentAt), "drift_ns": diff(r.PlannedNS, r.SentNS),
			"conn_wait_ns": num(r.ConnWaitNS), "written_ns": num(r.WrittenNS), "written_first_bytes": num(r.WrittenFirstBytes),
			"departed_ns": num(r.DepartedNS), "acked_ns": num(r.AckedNS), "headers_ns": num(r.HeadersNS), "first_token_ns": num(r.FirstTokenNS),
			"first_text_ns": num(r.FirstTextNS), "first_output_ns": num(r.FirstOutputNS), "last_token_ns": num(r.LastTokenNS), "done_ns": num(r.DoneNS),
			"ttft_ms": ms(r.SentNS, r.FirstTokenNS, 1), "ttfo_ms": ms(r.SentNS, r.FirstOutputNS, 1), "e2e_ms": ms(r.SentNS, r.LastTokenNS, 1), "tpot_ms": "null",
			"recorded_input_tokens": num(r.InputTokens), "prompt_tokens": num(r.PromptTokens), "recorded_output_tokens": num(r.OutputTokens),
			"completion_tokens": num(r.CompletionTokens), "tokens_from": str(string(r.TokensFrom)), "chunks": num(r.Chunks),
			"finish_reason": str(r.FinishReason), "expected_cached_tokens": num(r.ExpectedCachedTokens),
			"cached_tokens": num(r.CachedTokens), "status": num(r.Status), "outcome": str(r.Outcome.String()), "error": str(r.Error),
			"resent": num(r.Resent), "bytes_sent": num(r.BytesSent), "bytes_received": num(r.BytesReceived),
		}
		sent := r.CompletionTokens
		if r.HiddenTokens != None {
			sent = max(0, sent) - r.HiddenTokens
		}
		switch {
		case r.FirstTokenNS != None && r.Chunks > 0 && r.Chunks <= max(1, r.Choices): // one chunk a choice
		case r.FirstTokenNS != None && (r.Choices > 1 && r.DecodeNS == 0 || r.Choices < 2 && r.FirstTokenNS == r.LastTokenNS): // one instant
		case r.Choices > 1 && sent > r.Choices:
			want["tpot_ms"] = ms(0, r.DecodeNS, sent-r.Choices)
		case r.Choices < 2 && sent >= 2:
			want["tpot_ms"] = ms(r.FirstTokenNS, r.LastTokenNS, sent-1)
		}
		if r.Choices > 1 {
			want["choices"] = num(r.Choices)
		}
		if r.Choices > 1 && r.DecodeNS != None {
			want["decode_ns"] = num(r.DecodeNS)
		}
		for key, n := range map[string]int64{
			"job": r.Job, "job_requests": r.JobRequests, "job_before": r.JobBefore, "depth": r.Depth, "job_recorded_ns": r.JobRecordedNS,
			"wrong_tokens": r.WrongTokens, "wrong_at": r.WrongAt, "wrong_got": r.WrongGot, "wrong_want": r.WrongWant, "recorded_cached_tokens": r.RecordedCachedTokens, "hidden_tokens": r.HiddenTokens,
			"cached_device_tokens": r.CachedDeviceTokens, "cached_host_tokens": r.CachedHostTokens, "cached_external_tokens": r.CachedExternalTokens,
			"second_gap_ns": r.SecondGapNS, "gateway_ns": r.GatewayNS, "upstream_ns": r.UpstreamNS,
		} {
			if n != None {
				want[key] = num(n)
			}
		}
		for key, text := range map[string]string{
			"tenant": r.Tenant, "model": r.Model, "class": r.Class, "priority": r.Priority, "job_name": r.JobName, "waits_for": r.WaitsFor, "phase": string(r.Phase),
			"session_name": r.SessionName, "prefill_instance": r.PrefillInstance, "instance": r.Instance, "history": r.History, "type": r.Type,
		} {
			if text != "" {
				want[key] = str(text)
			}
		}
		must.Equal(t, len(got), len(want), "keys: %s", line)
		for key, w := range want {
			must.Equal(t, normal(string(got[key])), w, "%s: in %s", key, line)
		}
	}
}

func num(v int64) string {
	if v == None {
		return "null"
	}
	return strconv.FormatInt(v, 10)
}

func diff(from, to int64) string {
	if from == None || to == None {
		return "null"
	}
	return num(to - from)
}

func date(w Wall) string {
	if w == None {
		return "null"
	}
	return str(time.UnixMicro(int64(w)).UTC().Format("2006-01-02T15:04:05.000000Z"))
}

func str(s string) string {
	if s == "" {
		return "null"
	}
	return "s:" + s
}

// normal undoes JSON quoting, so that escapes may differ.
func normal(raw string) string {
	var s string
	if strings.HasPrefix(raw, `"`) && json.Unmarshal([]byte(raw), &s) == nil {
		return "s:" + s
	}
	if raw == "-0.000000" {
		return "0.000000"
	}
	return raw
}

func TestDerived(t *testing.T) {
	r := example()
	r.PlannedNS = 100
	for _, tt := range []struct {
		name      string
		got, want int64
	}{
		{"drift", r.DriftNS(), 312},
		{"TTFT", r.TTFTNS(), 51199588},
		{"TTFT planned", r.TTFTPlannedNS(), 51199900},
		{"TTFO", r.TTFONS(), 71199588},
		{"TTFO planned", r.TTFOPlannedNS(), 71199900},
		{"TPOT", r.TPOTNS(), 341985}, // 44.8 ms / 131 = 341,984.73
		{"E2E", r.E2ENS(), 95999588},
		{"E2E planned", r.E2EPlannedNS(), 95999900},
	} {
		expect.Equal(t, tt.got, tt.want, tt.name)
	}
	r.PlannedNS = 1000
	expect.Equal(t, r.DriftNS(), -588, "drift of an early request: it must not be clamped")
	for tokens, want := range map[int64]int64{None: None, 0: None, 1: None, 2: 44800000, 3: 22400000} {
		r.CompletionTokens = tokens
		expect.Equal(t, r.TPOTNS(), want, "TPOT of %d tokens", tokens)
	}
	for _, tt := range []struct {
		tokens, choices, decode, want int64
		atOnce                        bool
	}{{tokens: 132, choices: 2, decode: 80_600_000, want: 620_000}, {tokens: 2, choices: 2, want: None}, {tokens: 3, choices: 2, want: None, atOnce: true}} {
		r.CompletionTokens, r.Choices, r.DecodeNS = tt.tokens, tt.choices, tt.decode
		if r.Chunks = tt.tokens; tt.atOnce {
			r.Chunks = tt.choices
		}
		if got := r.TPOTNS(); got != tt.want || r.AtOnce() != tt.atOnce {
			t.Errorf("TPOT of %+v = %d, at once %v", tt, got, r.AtOnce())
		}
	}
	r = example()
	r.LastTokenNS = r.FirstTokenNS
	if r.TPOTNS() != None || !r.AtOnce() {
		t.Errorf("all chunks at one instant: TPOT %d, at once %v", r.TPOTNS(), r.AtOnce())
	}
	r.LastTokenNS, r.Chunks = r.FirstTokenNS+1, 1
	if r.TPOTNS() != None || !r.AtOnce() {
		t.Errorf("all tokens in one chunk: TPOT %d, at once %v", r.TPOTNS(), r.AtOnce())
	}
	r.Clear()
	for i, got := range []int64{r.DriftNS(), r.TTFTNS(), r.TTFTPlannedNS(), r.TTFONS(), r.TTFOPlannedNS(), r.TPOTNS(), r.E2ENS(), r.E2EPlannedNS()} {
		expect.Equal(t, got, None, "derived value %d of a cleared record", i)
	}
}

// TestMoveInstants: what a line calls an instant moves, and nothing else does.
func TestMoveInstants(t *testing.T) {
	durations := []string{"job_recorded_ns", "planned_ns", "drift_ns", "conn_wait_ns", "gateway_ns", "upstream_ns", "decode_ns", "second_gap_ns"}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		r := random(rng)
		moved := *r
		moved.MoveInstants(1000)
		for i := range keys {
			k := &keys[i]
			n, text := k.Value(r)
			got, other := k.Value(&moved)
			if strings.HasSuffix(k.Name, "_ns") && !slices.Contains(durations, k.Name) && n != None {
				n -= 1000
			}
			if k.derived == nil && (got != n || other != text) {
				t.Fatalf("%s is %d, want %d", k.Name, got, n)
			}
		}
	}
}

func TestNames(t *testing.T) {
	want := []string{"ok", "http_error", "connect_error", "reset", "timeout", "truncated", "bad_response", "stream_error", "cancelled", "not_sent"}
	must.Equal(t, len(want), Outcomes, "outcomes")
	for i, name := range want {
		expect.Equal(t, Outcome(i).String(), name, "Outcome(%d)", i)
		var got Outcome
		if err := got.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil || got != Outcome(i) {
			t.Errorf("outcome %q is read as %v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "OK", "unknown", "okay"} {
		var got Outcome
		expect.Error(t, got.UnmarshalJSON([]byte(`"`+bad+`"`)), "", "outcome %q is read as %v", bad, got)
	}
}

func TestAppendJSONAllocatesNothing(t *testing.T) {
	r := example()
	r.Error = "a \"bad\" line\n\xff of 日本語"
	buf := make([]byte, 0, 4096)
	expect.Equal(t, testing.AllocsPerRun(1000, func() { buf = r.AppendJSON(buf[:0]) }), 0, "allocations")
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"a", "\"", "\\", "\x00\x1f\x7f\x80", "é\xc3", "\xff\xfe", "\u2028", "\xed\xa0\x80", "\U0010ffff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" {
			return
		}
		quoted := appendString(nil, s)
		var got, want string
		must.Do(t, json.Unmarshal(quoted, &got), "%q became %s", s, quoted)
		twin, _ := json.Marshal(s)
		if err := json.Unmarshal(twin, &want); err != nil || got != want {
			t.Fatalf("%q became %s and reads as %q, want %q (%v)", s, quoted, got, want, err)
		}
		if bytes.ContainsAny(quoted, "\n\r\x00") {
			t.Fatalf("%q became %q: a line would break", s, quoted)
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	r, buf := example(), make([]byte, 0, 4096)
	b.SetBytes(int64(len(exampleLine)))
	b.ReportAllocs()
	for b.Loop() {
		buf = r.AppendJSON(buf[:0])
	}
	must.Equal(b, string(buf), exampleLine, "wrong line")
}

func BenchmarkParse(b *testing.B) {
	line, r := []byte(exampleLine), new(Record)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, Parse(line, r))
	}
	must.Equal(b, *r, *example(), "wrong record: %+v", r)
}

// TestContextTooLong takes what servers say of requests that are too long, and nothing else.
func TestContextTooLong(t *testing.T) {
	for text, want := range map[string]bool{
		// vLLM
		"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).": true,
		"The decoder prompt (length 5036) is longer than the maximum model length of 4096.":                                                      true,
		// SGLang
		"The input (5000 tokens) is longer than the model's context length (4096 tokens).":                                                  true,
		"Requested token count exceeds the model's maximum context length of 4096 tokens.":                                                  true,
		"Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens). Use a shorter input or enable --allow-auto-truncate.": true,
		// TGI
		"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`": true,
		"Input validation error: `inputs` must have less than 4096 tokens. Given: 5000":                                                     true,
		// llama.cpp
		"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it": true,
		"exceed_context_size_error": true,
		// OpenAI, TensorRT-LLM, Anthropic
		"Your input exceeds the context window of this model. Please adjust your input and try again.": true,
		"context_length_exceeded": true,
		"The sum of prompt length (4000) and query length (0) max_tokens (2048) should not exceed max_seq_len (4096)": true,
		"prompt is too long: 208310 tokens > 200000 maximum":                                                          true,

		"":                                    false,
		"out of blocks":                       false,
		"Rate limit reached: too many tokens": false,
		"model `a` does not exist":            false,
		"max_tokens must be at least 1":       false,
	} {
		for outcome := range Outcome(Outcomes) {
			r := Record{Outcome: outcome, Error: text}
			expect.Equal(t, r.ContextTooLong(), want && (outcome == HTTPError || outcome == StreamError), "%v, %q", outcome, text)
		}
	}
}

// TestEmptyFirst: a chunk that nothing proves to be a token, before text or in less time than a token takes.
func TestEmptyFirst(t *testing.T) {
	for _, c := range []struct{ first, text, last, chunks, tokens, want int64 }{
		{20e6, 20e6, 120e6, 11, 11, 0},
		{1e6, 21e6, 120e6, 11, 11, 0},                      // as many tokens as chunks
		{1e6, 21e6, 120e6, 11, 12, 20e6},                   // the text came later
		{1e6, 1e6, 201e6, 12, 11, 20e6},                    // a space at once, and the server counts one token less
		{20e6, 20e6, 200e6, 12, 11, 0},                     // no sooner than a token
		{1e6, 1e6, 201e6, 11, 12, 0},                       // chunks of several tokens
		{None, None, None, 0, None, 0},                     // no answer
		{1e6, 1e6, 1e6, 1, 1, 0}, {1e6, 1e6, 1e6, 2, 1, 0}, // one token
	} {
		var r Record
		r.Clear()
		r.SentNS, r.FirstTokenNS, r.FirstTextNS, r.LastTokenNS = 0, c.first, c.text, c.last
		r.Chunks, r.CompletionTokens, r.TokensFrom = c.chunks, c.tokens, TokensFromUsage
		expect.Equal(t, r.EmptyFirstNS(), c.want, "%+v", c)
	}
}
