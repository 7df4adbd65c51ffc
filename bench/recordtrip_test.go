package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// recordLong makes TestRecord send every sample by every API, streamed and not, and published traces too:
// FASTREPLAY_RECORD=1 FASTREPLAY_TRACES=… go test ./bench -run 'TestRecord$' -timeout 2h.
const recordLong = "FASTREPLAY_RECORD"

// recordTrip is a load that is sent through the recorder.
type recordTrip struct {
	load string // file
	backend
	way  []string
	args []string
	open bool // requests leave at their instants, not one after another
}

// recordTrips are those of CI, in which each API has some, or all.
func recordTrips(t *testing.T) (all []recordTrip) {
	long := os.Getenv(recordLong) != ""
	turns := map[int]int{}
	var apis []string // nil = all
	add := func(load string, open bool, args ...string) {
		var ways []recordTrip
		for _, b := range backends() {
			if b.api == "embeddings" || b.api == "raw" || !speaks(b.api, load) || apis != nil && !slices.Contains(apis, b.api) {
				continue
			}
			for _, way := range b.ways() {
				ways = append(ways, recordTrip{load, b, way, args, open})
			}
		}
		if !long { // two of them, the next ones each time
			turn := turns[len(ways)]
			turns[len(ways)] += 2
			ways = []recordTrip{ways[turn%len(ways)], ways[(turn+1)%len(ways)]}
		}
		all = append(all, ways...)
	}
	limit := []string{"--limit", "60"}
	if long {
		limit = nil
	}
	for _, pattern := range []string{"*.jsonl", "*.json", "*.csv"} {
		for _, load := range must.Have(filepath.Glob("samples/" + pattern))(t) {
			add(load, false, limit...)
		}
	}
	add("samples/mooncake-small.jsonl", true)
	traces := os.Getenv("FASTREPLAY_TRACES")
	if !long || traces == "" {
		return all
	}
	apis = []string{"completions", "chat", "responses", "messages"}
	add(filepath.Join(traces, "mooncake-conversation.jsonl.zst"), true, "--limit", "2000", "--scale", "60")
	add(shortJobs(t, filepath.Join(traces, "weka-48.jsonl.zst")), true, "--scale", "200")
	return all
}

// speaks reports whether an API takes what a sample has.
func speaks(api, load string) bool {
	switch filepath.Base(load) {
	case "batch.jsonl", "inputs.json", "raw_payload.jsonl", "sagemaker.jsonl", "otel.jsonl": // bodies of chats, and tools
		return api == "chat"
	case "single_turn.jsonl": // messages without the length of an answer, and parts in place of text
		return api == "chat"
	case "dag.jsonl", "multi_turn.jsonl", "sharegpt.json":
		return api == "chat" || api == "responses" || api == "messages"
	}
	return true
}

// shortJobs is a file of the eight shortest lines of a packed one, of the trace of agents' jobs.
func shortJobs(t *testing.T, path string) string {
	z := must.Have(zstd.NewReader(bytes.NewReader(readFile(t, path))))(t)
	defer z.Close()
	var lines []string
	in := bufio.NewScanner(z)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	must.Do(t, in.Err())
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return newFile(t, "jobs.jsonl", strings.Join(lines[:8], "\n")+"\n")
}

// TestRecord: what is replayed through the recorder comes back as a trace of the same lengths, sessions as far as
// prompts tell them, and blocks that are equal where the prompts are. An ideal cache has the same hits, and replayed
// it gives them to a server, request for request. Outside CI, arrivals are within 1 ms at p99 of when they were sent, if
// this machine has nothing else to do.
func TestRecord(t *testing.T) {
	t.Parallel()
	for _, r := range recordTrips(t) {
		name := strings.Join(append([]string{filepath.Base(r.load), r.api}, r.way...), " ")
		if r.open {
			name += " open"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.check(t)
		})
	}
}

func (r recordTrip) check(t *testing.T) {
	load := must.Have(filepath.Abs(r.load))(t)
	template := chatTokens(t)
	mock := []string{"--template-tokens", template, "--ttft", "0s", "--itl", "0s"}
	args := append([]string{"--model", "m", "--no-probe"}, r.way...)
	asked := []string{"--api", r.api}
	if r.template {
		asked = append(asked, "--chat-overhead", template)
	}
	oneByOne := slices.Concat(args, []string{"--concurrency", "1"})
	first := slices.Concat(asked, oneByOne)
	if r.open {
		first = slices.Concat(asked, args)
	}
	rec := startRecorder(t, startMock(t, mock...).url, "--memory", "1GB")
	was := run(t, slices.Concat(first, r.args, []string{"--url", rec.url, "--trace", load})...)
	was.only(t, "ok")
	day := rec.stop(t)
	must.Equal(t, day.Len(), len(was.lines), "rows: %s", day.Heads[0])
	lines := r.pair(t, day, was.lines)
	source := must.Have(trace.Open(load, trace.Options{}))(t)
	spell := speller{tok: must.Have(tokenizer.Open(tokenizer.CL100K))(t)}
	if r.template {
		must.Have(fmt.Sscanf(template, "%d,%d", &spell.head, &spell.tail))(t)
	}
	rowAt := map[int64]int{}
	for i, row := range source.Row {
		rowAt[int64(row)] = i
	}
	var prompts [][]uint64
	for _, l := range lines {
		prompts = append(prompts, spell.prompt(t, source, rowAt[l.Row]))
	}
	hits := r.prove(t, day, lines, prompts)
	if !r.open {
		proveSessions(t, day, prompts)
	}
	if source.Verbatims() > 0 { // a chat of several messages is replayed as one, the end of which is in no later one
		asked = []string{"--api", "completions"}
	}
	again := run(t, slices.Concat(asked, oneByOne, []string{"--url", startMock(t, mock...).url, "--trace", rec.file})...)
	again.only(t, "ok")
	must.Equal(t, len(again.lines), len(lines), "rows replayed")
	for i, l := range again.lines {
		if r.counts {
			expect.Equal(t, l.Prompt, int64(len(prompts[i])), "row %d, replayed: prompt", i)
		}
		if r.cached {
			expect.Equal(t, l.Cached, hits[i], "row %d, replayed: tokens that the server held", i)
		}
	}
}

// pair returns the lines in the order of the recorded rows. Of open loads, rows are told by their lengths and by what
// the server held of them, and those that are alike by their order.
func (r recordTrip) pair(t *testing.T, day *trace.Trace, lines []line) []line {
	if !r.open {
		return lines
	}
	type key struct{ prompt, answer, cached int64 }
	queues := map[key][]line{}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.Sent, b.Sent) })
	for _, l := range lines {
		k := key{l.Input, l.Output, max(0, l.Cached)}
		queues[k] = append(queues[k], l)
	}
	var paired []line
	var late []int64 // of arrivals behind sending, but for the clocks' distance
	for i := range day.Len() {
		k := key{int64(day.InputTokens[i]), int64(day.OutputTokens[i]), 0}
		if day.Cached != nil {
			k.cached = int64(max(0, day.Cached[i]))
		}
		must.Equal(t, len(queues[k]) > 0, true, "row %d is of nobody: %+v", i, k)
		paired = append(paired, queues[k][0])
		late = append(late, day.ArrivalNS[i]-queues[k][0].Sent)
		queues[k] = queues[k][1:]
	}
	slices.Sort(late)
	for i := range late {
		late[len(late)-1-i] -= late[0]
	}
	p99 := late[len(late)*99/100]
	t.Logf("%d rows arrived within %d µs of when they were sent at p50, %d at p99", len(late), late[len(late)/2]/1000, p99/1000)
	if os.Getenv(recordLong) != "" && p99 > 1e6 && quietMachine() { // or the client was held up between its clock and its write
		t.Errorf("arrivals are off by up to %d µs at p99", p99/1000)
	}
	return paired
}

// prove compares recorded rows with prompts, and returns what an ideal cache holds of each.
func (r recordTrip) prove(t *testing.T, day *trace.Trace, lines []line, prompts [][]uint64) (hits []int64) {
	const blockTokens = 16
	type block struct {
		before uint64 // the id of the block before, as recorded
		text   [blockTokens]uint64
		tokens int
	}
	byText := map[block]uint64{}
	byID := map[uint64]block{}
	ideal := kvcache.NewInfinite(blockTokens, blockTokens)
	for i, l := range lines {
		prompt := prompts[i]
		must.Equal(t, int(day.InputTokens[i]), len(prompt), "row %d: prompt", l.Row)
		if l.Completion != absent {
			expect.Equal(t, int64(day.OutputTokens[i]), l.Completion, "row %d: answer", l.Row)
		}
		if r.cached {
			expect.Equal(t, int64(day.Cached[i]), l.Cached, "row %d: tokens that the server held", l.Row)
		}
		ids := day.Blocks(i)
		must.Equal(t, len(ids), (len(prompt)+blockTokens-1)/blockTokens, "row %d: blocks", l.Row)
		known := 0
		for k, id := range ids {
			b := block{}
			b.tokens = copy(b.text[:], prompt[k*blockTokens:])
			if k > 0 {
				b.before = ids[k-1]
			}
			same, there := byText[b]
			if there && known == k && b.tokens == blockTokens {
				known++
			}
			if !there {
				same = id
			}
			other, met := byID[id]
			if same != id || met && other != b {
				t.Fatalf("row %d: block %d has id %d, its text %d", l.Row, k, id, same)
			}
			byText[b] = id
			byID[id] = b
		}
		hit := int64(min(known, (len(prompt)-1)/blockTokens) * blockTokens)
		expect.Equal(t, int64(ideal.Expected(ids, len(prompt), 0, len(prompt))), hit, "row %d: tokens that an ideal cache holds", l.Row)
		if !r.open && l.Expected != absent {
			expect.Equal(t, l.Expected, hit, "row %d: tokens that were expected in the cache", l.Row)
		}
		hits = append(hits, hit)
	}
	return hits
}

// proveSessions holds the sessions of rows, none of which had a name, against prompts: one that goes on from all of an
// earlier one is of its session, and of several that of the longest, of these the latest.
func proveSessions(t *testing.T, day *trace.Trace, prompts [][]uint64) {
	same := map[int64]int{} // row that begins the recorded session
	begins := make([]int, len(prompts))
	for i, prompt := range prompts {
		begins[i] = i
		longest := 15    // less is no whole block
		var chance []int // sessions that it may go on by chance: words for the last token are few where text is sent
		for j, before := range prompts[:i] {
			n := len(before)
			switch {
			case n < 16 || n >= len(prompt) || !slices.Equal(before[:n-1], prompt[:n-1]):
			case before[n-1] != prompt[n-1]:
				chance = append(chance, begins[j])
			case n >= longest:
				longest = n
				begins[i] = begins[j]
			}
		}
		first, met := same[day.Session[i]]
		if !met {
			first = i
			same[day.Session[i]] = i
		}
		if slices.Contains(chance, first) {
			begins[i] = first
		}
		must.Equal(t, first, begins[i], "row %d is of the session that began with row", i)
	}
}

// speller knows of each request what stands at each place of its prompt: equal numbers are equal tokens.
type speller struct {
	tok        *tokenizer.Tokenizer
	head, tail int // tokens of the chat's template
}

func (s speller) prompt(t *testing.T, source *trace.Trace, i int) (all []uint64) {
	v := source.Verbatim(i)
	if v.Kind != rows.NoVerbatim {
		return s.spelled(t, v)
	}
	for at := range s.head {
		all = append(all, uint64(at)|1<<62)
	}
	ids := source.Blocks(i)
	for at := range int(source.InputTokens[i]) - s.head - s.tail {
		of := uint64(source.Row[i]) | 1<<32 // its own
		if n := at / source.BlockTokens; n < len(ids) {
			of = ids[n]
		}
		all = append(all, of*0x9e3779b97f4a7c15+uint64(at%source.BlockTokens))
	}
	for at := range s.tail {
		all = append(all, uint64(at)|1<<61)
	}
	return all
}

// spelled is a text or a chat in ChatML, each piece tokenized by itself.
func (s speller) spelled(t *testing.T, v rows.Verbatim) (all []uint64) {
	say := func(text string) {
		for _, token := range must.Have(s.tok.Append(nil, text, false))(t) {
			all = append(all, uint64(token))
		}
	}
	turn := func(role, text string) {
		say("<|im_start|>" + role + "\n")
		say(text)
		say("<|im_end|>\n")
	}
	var body struct {
		Messages []struct {
			Role      string
			Content   any             // a text, or a list of such
			ToolCalls json.RawMessage `json:"tool_calls"`
		}
	}
	form := map[rows.VerbatimKind]string{
		rows.VerbatimText:     `{"messages":[{"role":"user","content":"%s"}]}`,
		rows.VerbatimMessages: `{"messages":[%s]}`,
		rows.VerbatimPayload:  `{%s}`,
	}[v.Kind]
	must.Do(t, json.Unmarshal(fmt.Appendf(nil, form, v.Content), &body))
	if v.Tools != nil {
		turn("system", string(v.Tools))
	}
	for _, m := range body.Messages {
		text, plain := m.Content.(string)
		if parts, ok := m.Content.([]any); ok {
			for _, part := range parts {
				text += part.(map[string]any)["text"].(string)
			}
		} else if !plain && m.Content != nil {
			t.Fatalf("what is %v?", m.Content)
		}
		turn(m.Role, text+string(m.ToolCalls))
	}
	say("<|im_start|>assistant\n")
	return all
}
