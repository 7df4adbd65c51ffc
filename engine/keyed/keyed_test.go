package keyed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/blockhash"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// call is a request of the tests' logs, and what was answered. Times are ms.
type call struct {
	session        string
	messages       []message
	answer         string
	began, ended   int64
	prompt, output int // tokens as told
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// talk is conversations whose turns interleave, all with one system prompt.
func talk(chance *rand.Rand, conversations, turns int) (all []call) {
	const word = "zebra quokka marmot lemur \u00fcber gecko \\\"walrus\\\" ibex tapir ocelot"
	say := func(n int) string {
		words := strings.Fields(word)
		var said []string
		for range n {
			said = append(said, words[chance.IntN(len(words))])
		}
		return strings.Join(said, " ")
	}
	system := message{"system", say(40)}
	said := make([][]message, conversations)
	for turn := range turns * conversations {
		c := chance.IntN(conversations)
		if said[c] == nil {
			said[c] = []message{system}
		}
		said[c] = append(said[c], message{"user", fmt.Sprintf("%s %d", say(5+chance.IntN(30)), turn)})
		answer := say(1 + chance.IntN(40))
		at := int64(turn) * 1500
		all = append(all, call{
			session:  fmt.Sprintf("patient-%d", c),
			messages: slices.Clone(said[c]),
			answer:   answer,
			began:    at,
			ended:    at + 250 + int64(chance.IntN(900)),
			prompt:   100,
			output:   len(tokenize(answer)),
		})
		said[c] = append(said[c], message{"assistant", answer})
	}
	return all
}

// cl100k is the tokenizer of the tests.
var cl100k = sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return tokenizer.Open(tokenizer.CL100K) })

// tokenize is a text's tokens.
func tokenize(text string) []int32 {
	tok, err := cl100k()
	if err != nil {
		panic(err)
	}
	tokens, err := tok.Append(nil, text, false)
	if err != nil {
		panic(err)
	}
	return tokens
}

// tokensOfCall is the prompt of a call, each piece of ChatML by itself.
func tokensOfCall(c *call) (all []int32) {
	for _, m := range c.messages {
		for _, piece := range []string{"<|im_start|>" + m.Role + "\n", m.Content, "<|im_end|>\n"} {
			all = append(all, tokenize(piece)...)
		}
	}
	return append(all, tokenize("<|im_start|>assistant\n")...)
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// since1970 is the ms of a call as a log has it, of a day in November 2026.
const since1970 = int64(1_795_770_000_000)

func date(ms int64) string {
	return fmt.Sprintf(`"2026-11-27T%02d:%02d:%02d.%03dZ"`, 9+ms/3600000, ms/60000%60, ms/1000%60, ms%1000)
}

// logs write a call as a line of each format with text.
func logs() map[string]func(i int, c *call) string {
	usage := func(c *call) string {
		return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, c.prompt, c.output)
	}
	stream := func(c *call) string {
		var events strings.Builder
		for part := range strings.SplitAfterSeq(c.answer, " ") {
			fmt.Fprintf(&events, "data: %s\n\n", asJSON(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": part}}}}))
		}
		fmt.Fprintf(&events, "data: {\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n", usage(c))
		return asJSON(events.String())
	}
	chat := func(c *call) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":%s}}],"usage":%s}`, asJSON(c.answer), usage(c))
	}
	return map[string]func(i int, c *call) string{
		"openai": func(_ int, c *call) string {
			return fmt.Sprintf(`{"request":{"model":"m","messages":%s},"response":%s,"timestamp":%s,"end_time":%s,"session_id":%q}`,
				asJSON(c.messages), chat(c), date(c.began), date(c.ended), c.session)
		},
		"openai stream": func(_ int, c *call) string {
			return fmt.Sprintf(`{"request":{"model":"m","messages":%s},"response":%s,"timestamp":%d,"duration_ms":%d,"headers":{"x-session-id":%q}}`,
				asJSON(c.messages), stream(c), since1970+c.began, c.ended-c.began, c.session)
		},
		"responses": func(_ int, c *call) string {
			return fmt.Sprintf(`{"request":{"model":"m","input":%s,"instructions":%s,"prompt_cache_key":%q},"response":{"output":[{"type":"message",`+
				`"content":[{"type":"output_text","text":%s}]}],"usage":{"input_tokens":%d,"output_tokens":%d}},"timestamp":%d.%03d,"end_time":%d}`,
				asJSON(c.messages[1:]), asJSON(c.messages[0].Content), c.session, asJSON(c.answer), c.prompt, c.output,
				(since1970+c.began)/1000, (since1970+c.began)%1000, since1970+c.ended)
		},
		"messages": func(_ int, c *call) string {
			return fmt.Sprintf(`{"request":{"model":"m","messages":%s,"system":[{"type":"text","text":%s}],"metadata":{"user_id":%q}},"response":`+
				`{"type":"message","role":"assistant","content":[{"type":"text","text":%s}],"usage":{"input_tokens":%d,"output_tokens":%d}},"timestamp":%s,"latency_ms":%d}`,
				asJSON(c.messages[1:]), asJSON(c.messages[0].Content), c.session, asJSON(c.answer), c.prompt, c.output, date(c.began), c.ended-c.began)
		},
		"litellm": func(i int, c *call) string {
			return fmt.Sprintf(`{"id":"x%d","call_type":"acompletion","status":"success","startTime":%d.%03d,"endTime":%d.%03d,"messages":%s,"response":%s,`+
				`"prompt_tokens":%d,"completion_tokens":%d,"session_id":%q}`, i, (since1970+c.began)/1000, (since1970+c.began)%1000,
				(since1970+c.ended)/1000, (since1970+c.ended)%1000, asJSON(c.messages), chat(c), c.prompt, c.output, c.session)
		},
		"langfuse": func(i int, c *call) string {
			return fmt.Sprintf(`{"id":"x%d","type":"GENERATION","startTime":%s,"endTime":%s,"input":%s,"output":{"role":"assistant","content":%s},`+
				`"usageDetails":{"input":%d,"output":%d},"sessionId":%q}`, i, date(c.began), date(c.ended), asJSON(c.messages), asJSON(c.answer),
				c.prompt, c.output, c.session)
		},
		"sglang": func(i int, c *call) string {
			started := fmt.Sprintf(`{"timestamp":%s,"event":"request.received","rid":"x%d","obj":{"text":null,"input_ids":[1]}}`+"\n", date(c.began), i)
			return started + fmt.Sprintf(`{"timestamp":%s,"event":"request.finished","rid":"x%d","obj":{"rid":"x%d","text":"cut...","input_ids":%s},"headers":{"x-session-id":%q},`+
				`"out":{"text":%s,"output_ids":[1],"meta_info":{"prompt_tokens":%d,"completion_tokens":%d,"cached_tokens":null,"e2e_latency":%d.%03d}}}`,
				date(c.ended), i, i, asJSON(tokensOfCall(c)), c.session, asJSON(c.answer), c.prompt, c.output, (c.ended-c.began)/1000, (c.ended-c.began)%1000)
		},
		"otel": func(i int, c *call) string {
			part := func(m message) any {
				return map[string]any{"role": m.Role, "parts": []any{map[string]any{"type": "text", "content": m.Content}}}
			}
			var input []any
			for _, m := range c.messages {
				input = append(input, part(m))
			}
			return fmt.Sprintf(`{"session_id":%q,"spans":[{"type":"llm_call","start_time":%s,"end_time":%s,"attributes":{"gen_ai.usage.input_tokens":%d,`+
				`"gen_ai.usage.output_tokens":%d,"gen_ai.input.messages":%s,"gen_ai.output.messages":%s}}]}`, c.session, date(c.began), date(c.ended),
				c.prompt, c.output, asJSON(asJSON(input)), asJSON(asJSON([]any{part(message{"assistant", c.answer})})))
		},
	}
}

func logOf(calls []call, line func(i int, c *call) string) string {
	var log strings.Builder
	for i := range calls {
		log.WriteString(line(i, &calls[i]) + "\n")
	}
	return log.String()
}

// convert makes a written trace of a log.
func convert(t *testing.T, log, keyFile string, o Options) (text string, notes []string) {
	t.Helper()
	read := must.Have(trace.Read(strings.NewReader(log), "log", trace.Options{Lenient: o.Lenient}))(t)
	hashed, notes, err := Hash(read, keyFile, o)
	must.Do(t, err)
	var out bytes.Buffer
	must.Do(t, trace.Write(&out, hashed, trace.Own))
	return out.String(), notes
}

func read(t *testing.T, text string) *trace.Trace {
	t.Helper()
	return must.Have(trace.Read(strings.NewReader(text), "day", trace.Options{}))(t)
}

// TestFormats: one day, told by each format, becomes the same trace. Its lengths, times, sessions and blocks are those
// of an oracle that tokenizes and compares by itself; nothing that anybody said or was called is in the file.
func TestFormats(t *testing.T) {
	calls := talk(rand.New(rand.NewPCG(1, 1)), 4, 6)
	key := filepath.Join(t.TempDir(), "key")
	must.Have(blockhash.OpenKey("new:" + key))(t)
	var prompts, texts [][]int32
	for i := range calls {
		prompts = append(prompts, tokensOfCall(&calls[i]))
		texts = append(texts, append(slices.Clone(prompts[i]), tokenize(calls[i].answer)...))
	}
	var first string
	for name, line := range logs() {
		text, _ := convert(t, logOf(calls, line), key, Options{Tokenizer: tokenizer.CL100K})
		_, rows, _ := strings.Cut(text, "\n")
		if first == "" {
			first = rows
		}
		want := strings.Split(first, "\n")
		for i, row := range strings.Split(rows, "\n") {
			must.Equal(t, row, want[i], "row %d of %s beside that of another format", i, name)
		}
		for _, said := range []string{"zebra", "quokka", "ocelot", "walrus", "patient", "assistant", "im_start"} {
			expect.Lacks(t, rows, said, name)
		}
		tr := read(t, text)
		must.Equal(t, tr.Len(), len(calls), name)
		ids := map[string]uint64{}
		for i, c := range calls {
			expect.Equal(t, int(tr.InputTokens[i]), len(prompts[i]), "input of %d", i)
			expect.Equal(t, int(tr.OutputTokens[i]), c.output, "output of %d", i)
			expect.Equal(t, tr.ArrivalNS[i], c.began*1e6, "instant of %d", i)
			expect.Equal(t, tr.TookNS[i], (c.ended-c.began)*1e6, "duration of %d", i)
			for j := range i {
				expect.Equal(t, tr.SessionName(i) == tr.SessionName(j), c.session == calls[j].session, "one session of %d and %d", i, j)
			}
			whole := len(prompts[i]) / 16
			all := slices.Concat(tr.Blocks(i)[:whole], tr.AnswerBlocks(i))
			expect.Equal(t, len(all), len(texts[i])/16, "whole blocks of prompt and answer %d", i)
			for k, id := range all {
				checkID(t, ids, texts[i][:16*(k+1)], id)
			}
			if len(prompts[i])%16 > 0 {
				checkID(t, ids, prompts[i], tr.Blocks(i)[whole])
			}
		}
		seen := map[uint64]bool{}
		for _, id := range ids {
			if seen[id] {
				t.Errorf("%s: one id is of two prefixes", name)
			}
			seen[id] = true
		}
	}
}

// checkID notes the id of a prefix, which must be the one that it had before.
func checkID(t *testing.T, ids map[string]uint64, prefix []int32, id uint64) {
	t.Helper()
	name := fmt.Sprint(prefix)
	if known, ok := ids[name]; ok && known != id {
		t.Errorf("a prefix of %d tokens has two ids", len(prefix))
	}
	ids[name] = id
}

// TestGuessedSessions: without names, turns are found by all tokens of an earlier prompt, and a system prompt in common
// joins nothing. A guess is marked as such.
func TestGuessedSessions(t *testing.T) {
	for seed := range uint64(3) {
		calls := talk(rand.New(rand.NewPCG(seed, 2)), 5, 5)
		turns := map[string]int{}
		for i := range calls {
			turns[calls[i].session]++
		}
		nameless := slices.Clone(calls)
		for i := range nameless {
			nameless[i].session = ""
		}
		text, _ := convert(t, logOf(nameless, logs()["openai"]), "", Options{Tokenizer: tokenizer.CL100K})
		tr := read(t, text)
		for i, c := range calls {
			expect.Equal(t, tr.Guessed[i], turns[c.session] > 1, "row %d is guessed", i)
			for j := range i {
				expect.Equal(t, tr.Session[i] == tr.Session[j], c.session == calls[j].session, "one session of %d and %d, seed %d", i, j, seed)
			}
		}
	}
}

// TestKeys: a key in a file links what is made with it; one that is thrown away links nothing, and ids are then numbers
// in order of appearance. Files of two keys share no block when they are read together.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	log := logOf(talk(rand.New(rand.NewPCG(3, 3)), 3, 4), logs()["openai"])
	write := func(name, keyFile, tokens string) string {
		text, _ := convert(t, log, keyFile, Options{Tokenizer: tokens})
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	distinct := func(paths ...string) int {
		tr := must.Have(trace.OpenAll(paths, trace.Options{}))(t)
		ids := map[uint64]bool{}
		for i := range tr.Len() {
			for _, id := range tr.Blocks(i) {
				ids[id] = true
			}
		}
		return len(ids)
	}
	key := "new:" + filepath.Join(dir, "key")
	a := write("a.jsonl", key, tokenizer.CL100K)
	b := write("b.jsonl", key[4:], tokenizer.CL100K)
	other := write("c.jsonl", "new:"+filepath.Join(dir, "other"), tokenizer.CL100K)
	bytesToo := write("d.jsonl", key[4:], "")
	once := write("e.jsonl", "", tokenizer.CL100K)
	again := write("f.jsonl", "", tokenizer.CL100K)
	n := distinct(a)
	expect.Equal(t, distinct(a, b), n, "ids of one key")
	expect.Equal(t, distinct(a, other), 2*n, "ids of two keys")
	expect.Equal(t, distinct(a, bytesToo), n+distinct(bytesToo), "ids of tokens and of bytes")
	expect.Equal(t, distinct(once, again), 2*n, "ids of keys thrown away")
	tr := must.Have(trace.Open(once, trace.Options{}))(t)
	next := uint64(0)
	for i := range tr.Len() {
		for _, id := range slices.Concat(tr.Blocks(i), tr.AnswerBlocks(i)) {
			if id > next {
				t.Fatalf("row %d has id %d before %d", i, id, next)
			}
			next = max(next, id+1)
		}
	}
	secret := strings.TrimSpace(string(must.Have(os.ReadFile(key[4:]))(t)))
	for _, path := range []string{a, once} {
		expect.Lacks(t, string(must.Have(os.ReadFile(path))(t)), secret[:16], "the key in "+path)
	}
}

// TestRoundTrip: the prompts of each bundled trace with block ids, sent as token ids and logged, come back with the
// lengths, the times and, block for block, what they share. The oracle compares tokens.
func TestRoundTrip(t *testing.T) {
	for _, sample := range []string{"mooncake.jsonl", "mooncake-small.jsonl", "bailian.jsonl", "weka.jsonl", "dynamo.jsonl", "agentic_mooncake.jsonl"} {
		was := must.Have(trace.Open(filepath.Join("../../bench/samples", sample), trace.Options{Limit: 150}))(t)
		var log strings.Builder
		var prompts [][]int32
		for i := range was.Len() {
			prompts = append(prompts, tokensOf(was, i))
			fmt.Fprintf(&log, `{"request":{"prompt":%s},"response":{"choices":[{"text":"x"}],"usage":{"completion_tokens":%d}},"timestamp":%d}`+"\n",
				asJSON(prompts[i]), was.OutputTokens[i], 1_795_770_000_000_000_000+was.ArrivalNS[i])
		}
		text, notes := convert(t, log.String(), "", Options{Tokenizer: tokenizer.CL100K})
		expect.Equal(t, len(notes), 0, "notes on %s: %q", sample, notes)
		is := read(t, text)
		must.Equal(t, is.Len(), was.Len(), sample)
		expect.List(t, is.InputTokens, was.InputTokens, sample)
		expect.List(t, is.OutputTokens, was.OutputTokens, sample)
		expect.List(t, is.ArrivalNS, was.ArrivalNS, sample)
		var coarse bytes.Buffer
		must.Do(t, trace.Write(&coarse, is, "mooncake"))
		large := read(t, coarse.String())
		for i, p := range prompts {
			hits, large512 := 0, 0
			for j := range i {
				same := 0
				for same < min(len(p), len(prompts[j])) && p[same] == prompts[j][same] {
					same++
				}
				hits, large512 = max(hits, same/16), max(large512, same/512)
			}
			must.Equal(t, known(is, i, 16), hits, "%s: blocks of 16 of an earlier row that row %d has", sample, i)
			if got := known(large, i, 512); got != large512 {
				t.Fatalf("%s: row %d has %d blocks of 512 of an earlier one, the tokens %d", sample, i, got, large512)
			}
		}
	}
}

// known is how many whole blocks at the beginning of request i's prompt an earlier one has.
func known(tr *trace.Trace, i, blockTokens int) int {
	before := map[uint64]bool{}
	for j := range i {
		for _, id := range tr.Blocks(j)[:int(tr.InputTokens[j])/blockTokens] {
			before[id] = true
		}
	}
	n := 0
	for _, id := range tr.Blocks(i)[:int(tr.InputTokens[i])/blockTokens] {
		if !before[id] {
			break
		}
		n++
	}
	return n
}

// tokensOf is a prompt for request i: equal ids have equal tokens.
func tokensOf(tr *trace.Trace, i int) (tokens []int32) {
	ids := tr.Blocks(i)
	for at := range int(tr.InputTokens[i]) {
		of := uint64(i)<<40 | 1<<63
		if block := at / tr.BlockTokens; block < len(ids) {
			of = ids[block]
		}
		of = (of ^ uint64(at%tr.BlockTokens)*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
		tokens = append(tokens, int32(of>>40%50000))
	}
	return tokens
}

// TestDamaged: a log with a damaged line is refused with the line's number, or the row is lost and counted; a number in
// the head and the rows that are there are all that was logged. No damage panics.
func TestDamaged(t *testing.T) {
	chance := rand.New(rand.NewPCG(4, 4))
	calls := talk(chance, 3, 4)
	damages := []func(line string) string{
		func(line string) string { return line[:len(line)/2] },
		func(line string) string { return strings.Replace(line, `"messages":[`, `"messages":[7,`, 1) },
		func(line string) string { return strings.Replace(line, `"content":"`, `"content":7,"x":"`, 1) },
		func(line string) string { return strings.Replace(line, `"messages":[`, `"messages":null,"x":[`, 1) },
		func(line string) string { return strings.Replace(line, `"timestamp":`, `"timestamp":NaN,"x":`, 1) },
		func(line string) string { return strings.Replace(line, `"timestamp":"`, `"timestamp":"NaN`, 1) },
		func(line string) string { return strings.Replace(line, `"timestamp":`, `"timestamp":-5,"x":`, 1) },
		func(line string) string {
			return strings.Replace(line, `"request":{`, `"request":{"previous_response_id":"r",`, 1)
		},
		func(line string) string {
			return strings.Replace(line, `"response":{`, `"response":{"error":{"message":"x"},`, 1)
		},
		func(line string) string { return strings.Replace(line, `"response":{`, `"response":null,"x":{`, 1) },
		func(line string) string { return strings.Replace(line, `{`, `{"status":500,`, 1) },
		func(line string) string { return strings.Replace(line, `"request":`, `"request":[],"request":`, 1) },
		func(line string) string { return "null" },
		func(line string) string { return `{"request":"` + strings.Repeat("x", 1<<20) },
	}
	for n, damage := range damages {
		at := 2 + chance.IntN(len(calls)-2)
		line := func(i int, c *call) string {
			text := logs()["openai"](i, c)
			if i == at {
				broken := damage(text)
				if broken == text {
					t.Fatalf("damage %d does nothing", n)
				}
				return broken
			}
			return text
		}
		log := logOf(calls, line)
		if _, err := trace.Read(strings.NewReader(log), "log", trace.Options{}); err != nil {
			expect.Contains(t, err.Error(), fmt.Sprintf("log:%d: ", at+1), "damage %d", n)
		}
		text, notes := convert(t, log, "", Options{Tokenizer: tokenizer.CL100K, Lenient: true})
		tr := read(t, text)
		lost := 0
		for _, k := range tr.Heads[0].Lost {
			lost += k
		}
		expect.Equal(t, tr.Len(), len(calls)-1, "rows after damage %d", n)
		expect.Equal(t, lost, 1, "lost rows that the head tells of damage %d", n)
		expect.Contains(t, strings.Join(notes, "\n"), "rows lost", "damage %d", n)
	}
}

// TestUnicode: halves of surrogates and what is no UTF-8 count as U+FFFD, as servers decode them.
func TestUnicode(t *testing.T) {
	line := func(prompt string) string {
		return `{"request":{"prompt":"` + prompt + `"},"response":{"choices":[{"text":"\ud83d"}]},"timestamp":5}` + "\n"
	}
	text, _ := convert(t, line(`a\ud83dz`)+line("a\xffz")+line(`a\ufffdz`)+line(`a\ud83d\ude00z`), "", Options{Tokenizer: tokenizer.CL100K})
	tr := read(t, text)
	expect.List(t, tr.Blocks(1), tr.Blocks(0), "what is no UTF-8")
	expect.List(t, tr.Blocks(2), tr.Blocks(0), "half of a pair")
	expect.Equal(t, tr.Blocks(3)[0] == tr.Blocks(0)[0], false, "a pair and its half")
}

// TestThoughts: what a model thought is in its answer and in no later prompt, so that a later prompt shares nothing with
// the answer. If it is not told, the answer has no ids.
func TestThoughts(t *testing.T) {
	const log = `{"request":{"messages":[{"role":"user","content":"one two three four five six seven eight nine ten"}]},` +
		`"response":{"choices":[{"message":{"content":"alpha beta gamma delta epsilon zeta eta theta iota kappa alpha beta gamma delta epsilon zeta eta theta iota kappa"%s}}],` +
		`"usage":{"completion_tokens":60%s}},"timestamp":5}` + "\n" +
		`{"request":{"messages":[{"role":"user","content":"one two three four five six seven eight nine ten"},` +
		`{"role":"assistant","content":"alpha beta gamma delta epsilon zeta eta theta iota kappa alpha beta gamma delta epsilon zeta eta theta iota kappa"},{"role":"user","content":"and now?"}]},` +
		`"response":{"choices":[{"message":{"content":"x"}}]},"timestamp":6}` + "\n"
	for _, world := range []struct {
		said, used    string
		known, shared bool
	}{
		{"", "", true, true},
		{`,"reasoning_content":"well, let me see what this may be about"`, "", true, false},
		{"", `,"completion_tokens_details":{"reasoning_tokens":40}`, false, false},
	} {
		text, _ := convert(t, fmt.Sprintf(log, world.said, world.used), "", Options{Tokenizer: tokenizer.CL100K})
		tr := read(t, text)
		ids := tr.AnswerBlocks(0)
		expect.Equal(t, len(ids) > 0, world.known, "the answer has ids: %+v", world)
		expect.Equal(t, len(ids) > 0 && slices.Contains(tr.Blocks(1), ids[0]), world.shared, "the next prompt has the answer: %+v", world)
	}
}

// TestBatchAnswers: the answers of a batch, given before its requests, tell their lengths; requests that failed are
// counted, and answers that come too late or twice are refused.
func TestBatchAnswers(t *testing.T) {
	const ask = `{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"the same question for all"}]}}` + "\n"
	const answered = `{"id":"x","custom_id":"%s","response":{"status_code":200,"body":{"choices":[{"message":{"content":"well"}}],"usage":{"completion_tokens":%d}}},"error":null}` + "\n"
	const failed = `{"id":"x","custom_id":"%s","response":null,"error":{"code":"batch_expired"}}` + "\n"
	dir := t.TempDir()
	write := func(name, format string, args ...any) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600))
		return path
	}
	asked := write("asked.jsonl", ask+ask+ask+ask, "a", "b", "c", "d")
	answers := write("answers.jsonl", answered+failed+answered, "c", 7, "b", "a", 9)
	tr := must.Have(trace.OpenAll([]string{answers, asked}, trace.Options{}))(t)
	hashed, _, err := Hash(tr, "", Options{})
	must.Do(t, err)
	expect.List(t, hashed.OutputTokens, []int32{9, 7}, "lengths of answers")
	expect.Equal(t, hashed.Heads[0].Lost["failed"], 1, "failed requests")
	expect.Equal(t, hashed.Heads[0].Lost["unanswered"], 1, "requests without an answer")
	_, err = trace.OpenAll([]string{asked, answers}, trace.Options{})
	expect.Error(t, err, "answers.jsonl:1: ")
	expect.Error(t, err, "give the file of answers before that of requests")
	twice := write("twice.jsonl", answered+answered, "a", 7, "a", 8)
	_, err = trace.OpenAll([]string{twice, asked}, trace.Options{})
	expect.Error(t, err, "twice.jsonl:2: ")
	tr = must.Have(trace.Open(asked, trace.Options{}))(t)
	_, _, err = Hash(tr, "", Options{})
	expect.Error(t, err, "no row of")
}

// TestCutPrompts: a prompt that SGLang cut when it logged it is refused: the rest would be taken for all of it.
func TestCutPrompts(t *testing.T) {
	for _, obj := range []string{
		`"text":"` + strings.Repeat("a", 1024) + "..." + strings.Repeat("b", 1024) + `"`,
		`"text":"whole","input_ids":[1,2,"...",3]`,
	} {
		log := `{"timestamp":"2026-11-27T09:00:00","event":"request.finished","rid":"x","obj":{` + obj + `},"out":{"text":"y","meta_info":{"completion_tokens":1}}}` + "\n"
		_, err := trace.Read(strings.NewReader(log), "log", trace.Options{})
		expect.Error(t, err, "log:1: ")
	}
}

// TestVLLM: requests are found among a server's other lines, whatever prompts and answers look like; streams are summed.
func TestVLLM(t *testing.T) {
	const log = `(APIServer pid=7) INFO 11-27 08:59:59 [api_server.py:1] vLLM API server version 0.11.0
DEBUG 11-27 09:00:00 [logger.py:47] Request chatcmpl-a details: prompt: 'say: Generated response chatcmpl-a: output: x, output_token_ids: [1], finish', prompt_token_ids: [1, 2, 3], prompt_embeds shape: None.
INFO 11-27 09:00:00 [logger.py:39] Received request chatcmpl-a: params: SamplingParams(n=1), lora_request: None.
INFO 11-27 09:00:01 [logger.py:39] Received request cmpl-b: prompt: "it's, prompt_token_ids: [9], ", params: SamplingParams(n=1, stop=[]), prompt_token_ids: [1, 2, 3, 4], prompt_embeds shape: None, lora_request: None.
INFO:     127.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK
INFO 11-27 09:00:02 [logger.py:72] Generated response chatcmpl-a (streaming delta): output: 'H', output_token_ids: [5, 6], finish_reason: None
INFO 11-27 09:00:02 [logger.py:72] Generated response cmpl-b: output: 'B', output_token_ids: [7, 8, 9], finish_reason: stop
INFO 11-27 09:00:03 [logger.py:72] Generated response chatcmpl-a (streaming delta): output: 'i', output_token_ids: [7], finish_reason: stop
INFO 11-27 09:00:03 [logger.py:72] Generated response chatcmpl-a (streaming complete): output: 'Hi', output_token_ids: None, finish_reason: stop
DEBUG 11-27 09:00:04 [logger.py:47] Request chatcmpl-c details: prompt: 'x', prompt_token_ids: [1], prompt_embeds shape: None.
`
	text, _ := convert(t, log, "", Options{})
	tr := read(t, text)
	expect.List(t, tr.InputTokens, []int32{3, 4}, "lengths of prompts")
	expect.List(t, tr.OutputTokens, []int32{3, 3}, "lengths of answers")
	expect.List(t, tr.ArrivalNS, []int64{0, 1e9}, "instants")
	expect.Equal(t, tr.Heads[0].Lost["failed"], 1, "requests without an answer")
	expect.Equal(t, tr.Heads[0].TimeResolutionNS, int64(1e9), "resolution")
}
