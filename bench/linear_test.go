package bench

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	inspection "github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// world is a file that grows in one direction.
type world struct {
	name string
	n    int    // of the smaller of two files; the larger has four times as much
	text string // a template: see grown
}

// grown is a text in which ⟦row⟧ stands for n lines, and ⟨row⟩ for n elements of a list. What is different in each row,
// of which i is the place from 0, stands as ${2i+1}, or as ${date 2i+1} if it is a date in ms. ${n+1} counts rows.
func grown(text string, n int) string {
	text = repeated(text, "⟦", "⟧", "\n", n)
	text = repeated(text, "⟨", "⟩", ",", n)
	return os.Expand(text, func(sum string) string { return valueOf(sum, "n", n) })
}

// repeated writes what stands between two marks n times, with something between.
func repeated(text, from, to, between string, n int) string {
	before, rest, found := strings.Cut(text, from)
	if !found {
		return text
	}
	row, rest, _ := strings.Cut(rest, to)
	rows := make([]string, n)
	for i := range rows {
		rows[i] = os.Expand(row, func(sum string) string { return valueOf(sum, "i", i) })
	}
	return before + strings.Join(rows, between) + repeated(rest, from, to, between, n)
}

// valueOf is the value of a sum such as 2i+1, or itself if it has no such variable.
func valueOf(sum, variable string, value int) string {
	times, plus, has := strings.Cut(strings.TrimPrefix(sum, "date "), variable)
	if !has {
		return "${" + sum + "}"
	}
	factor, err := strconv.Atoi(times)
	if err != nil {
		factor = 1
	}
	more, _ := strconv.Atoi(plus)
	value = factor*value + more
	if strings.HasPrefix(sum, "date ") {
		return date(value)
	}
	return strconv.Itoa(value)
}

// date is an instant in ms as a date.
func date(ms int) string {
	return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond).Format("2006-01-02T15:04:05.000Z")
}

// dynamo is a request by its session and what else its context has, its place, when it came and what it took, and its
// prompt.
func dynamo(session, place, at, took, prompt string) string {
	return `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":` + at + `,"agent_context":{"session_id":` + session +
		`},"request":{"request_id":"r` + place + `","output_tokens":5,"request_received_ms":` + at + `,"total_time_ms":` + took + `,` + prompt + `}}`
}

// What dynamo's requests have in common.
const (
	atOnce0  = "1767603600000"
	atTurns  = "${i+1767603600000}"
	unhashed = `"input_tokens":50`
	oneBlock = `"replay":{"trace_block_size":16,"input_length":16,"input_sequence_hashes":[1]}`
	ownBlock = `"replay":{"trace_block_size":16,"input_length":16,"input_sequence_hashes":[${i}]}`
	blocks   = `"replay":{"trace_block_size":16,"input_length":32,"input_sequence_hashes":[1,2]}`
	below    = `"s${i+1}","parent_session_id":"s${i}"`
	forever  = "99999999"
)

func weka(requests string) string {
	return `{"id":"t","block_size":64,"hash_id_scope":"local","requests":[` + requests + "]}\n"
}

// agentic are requests, of which each waits for some.
func agentic(rows ...string) string {
	head := `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"x","digest":"1"}}`
	return strings.Join(append([]string{head}, rows...), "\n") + "\n"
}

func agenticRow(place, waits string) string {
	return `{"request_id":"r` + place + `","play_id":"p","session_id":"s","model":"m","input_length":64,"output_length":5,"hash_ids":[1],"not_before_ms":0,"dependencies":[` + waits + `]}`
}

func waitFor(place, relation string) string {
	return `{"request_id":"r` + place + `","trigger":"completion","delay_ms":1,"relation":"` + relation + `"}`
}

func satf(sessions string) string {
	return `{"format":"satf","format_version":"2.0.0","time_base":"us","block_size_tokens":64,"sessions":[` + sessions + "]}\n"
}

// satfNodes are the nodes and edges of a session.
func satfNodes(nodes, edges string) string {
	return satf(`{"session_id":"s","nodes":[` + nodes + `],"edges":[` + edges + `]}`)
}

func satfInfer(id string) string {
	return `{"kind":"llm_infer","id":"` + id + `","duration_us":9,"min_start_delay_us":0,"payload":{"input_tokens_total":64,"output_tokens":5,"kv_block_ids":[1]}}`
}

func satfTool(id string) string { return `{"kind":"tool_call","id":"` + id + `","duration_us":1}` }

func edge(from, to string) string { return `{"from":"` + from + `","to":"` + to + `"}` }

func dag(name, more string) string {
	return `{"session_id":"` + name + `","turns":[{"messages":[{"role":"user","content":"hi"}],"max_tokens":5` + more + `}]}`
}

// tracelab is a round by its session, its place and its dates.
func tracelab(session, at, end string) string {
	return `{"provider":"claude","session_id":"` + session + `","round_index":${i},"model":"m","input_tokens_total":640,"prefix_tokens":0,"newly_append_tokens":5,"output_tokens":5,` +
		`"timing_events":[{"event_type":"user_message","timestamp":"` + at + `"},{"event_type":"text","timestamp":"` + end + `"}]}`
}

func otel(spans string) string { return `{"session_id":"s","spans":[` + spans + "]}\n" }

func otelSpan(end, more string) string {
	return `{"type":"llm_call","start_time":"${date i}","end_time":"` + end + `","attributes":{"gen_ai.request.model":"m","gen_ai.usage.input_tokens":640,"gen_ai.usage.output_tokens":7` + more + `}}`
}

func copilot(calls string) string {
	return `{"session_id":"s","date":"2026-06-01","turns":[{"turn_id":"t","llm_calls":[` + calls + "]}]}\n"
}

func copilotCall(date, took, messages string) string {
	return `{"message_id":"m","timestamp":"` + date + `","duration_ms":` + took + `,"model":"A","status_code":"OK","tokens":{"total":700,"prompt":640,"completion":60,"cached":0},"message_metadata":[` + messages + `]}`
}

func bailian(parent, turn string) string {
	return `⟦{"chat_id":${i},"parent_chat_id":` + parent + `,"timestamp":${i},"input_length":16,"output_length":5,"type":"text","turn":` + turn + `,"hash_ids":[1]}⟧` + "\n"
}

// worlds has files of every format, each of which grows in one direction: chains, fans, depth, names, waits, ids.
func worlds() []world {
	const user = `⟨{"type":"User","role":"user","token_len":1}⟩`
	return []world{
		{"dynamo/chain of sessions", 2500, dynamo(`"s0"`, "", atOnce0, "5", blocks) + "\n⟦" + dynamo(below, "${i}", atTurns, "5", blocks) + "⟧"},
		{"dynamo/chain of sessions, each in the one before", 2500, dynamo(`"s0"`, "", atOnce0, "900000", blocks) + "\n⟦" + dynamo(below, "${i}", atTurns, "${-2i+899998}", blocks) + "⟧"},
		{"dynamo/many sessions of one", 2500, dynamo(`"s"`, "", atOnce0, "5", blocks) + "\n⟦" + dynamo(`"s${i}","parent_session_id":"s"`, "${i}", atTurns, "5", blocks) + "⟧"},
		{"dynamo/one session, nothing shared", 2500, "⟦" + dynamo(`"s"`, "${i}", atTurns, "5", ownBlock) + "⟧"},
		{"dynamo/one session, all in flight", 2500, "⟦" + dynamo(`"s"`, "${i}", atTurns, forever, oneBlock) + "⟧"},
		{"dynamo/one session, no hashes, all in flight", 2500, "⟦" + dynamo(`"s"`, "${i}", atTurns, forever, unhashed) + "⟧"},
		{"dynamo/one session, no hashes, one in flight", 2500, dynamo(`"s"`, "", atOnce0, forever, unhashed) + "\n⟦" + dynamo(`"s"`, "${i}", "${10i+1767603600010}", "5", unhashed) + "⟧"},
		{"dynamo/equal times", 2500, "⟦" + dynamo(`"s"`, "${i}", atOnce0, "0", oneBlock) + "⟧"},
		{"dynamo/backwards", 2500, "⟦" + dynamo(`"s"`, "${i}", "${-1i+1767603700000}", "3", oneBlock) + "⟧"},
		{"weka/sub-agents of one name", 2500, weka(`⟨{"t":${i},"type":"subagent","agent_id":"a","duration_ms":900,"requests":[{"t":0,"type":"n","in":65,"out":5,"hash_ids":[1],"api_time":0.5}]}⟩`)},
		{"weka/sub-agents between requests", 2500, weka(`⟨{"t":${2i},"type":"n","in":65,"out":5,"hash_ids":[1],"api_time":0.5},{"t":${2i+1},"type":"subagent","duration_ms":900,"requests":[{"t":0,"type":"n","in":65,"out":5,"hash_ids":[1],"api_time":99999}]}⟩`)},
		{"weka/requests in a line", 2500, weka(`⟨{"t":${i},"type":"n","in":65,"out":5,"hash_ids":[${i}],"api_time":0.5}⟩`)},
		{"weka/requests without ids, all in flight", 2500, weka(`⟨{"t":${i},"type":"n","in":6,"out":5,"api_time":999999}⟩`)},
		{"weka/ids of a request", 10000, weka(`{"t":0,"type":"n","in":${64n},"out":5,"hash_ids":[⟨${i}⟩]}`)},
		{"agentic/one waits for many", 15000, agentic("⟦"+agenticRow("${i}", "")+"⟧", agenticRow("${n}", "⟨"+waitFor("${i}", "join")+"⟩"))},
		{"agentic/many wait for one", 2500, agentic(agenticRow("0", ""), "⟦"+agenticRow("${i+1}", waitFor("0", "spawn"))+"⟧")},
		{"agentic/chain backwards", 2500, agentic("⟦"+agenticRow("${i}", waitFor("${i+1}", "sequence"))+"⟧", agenticRow("${n}", ""))},
		{"agentic/circles", 2500, agentic("⟦"+agenticRow("${i}", waitFor("${i+1}", "sequence")+","+waitFor("0", "sequence"))+"⟧",
			agenticRow("${n}", waitFor("0", "sequence")), agenticRow("${n+1}", ""))},
		{"agentic/one name for all", 2500, agentic(agenticRow("1", ""), "⟦"+agenticRow("0", "")+"⟧")},
		{"satf/chain of sessions", 2500, satf(`{"session_id":"s0","nodes":[` + satfInfer("0") + `],"edges":[]},⟨{"session_id":"s${i+1}","nodes":[` + satfInfer("0") +
			`],"edges":[],"extensions":{"nvidia.dynamo":{"parent_session_id":"s${i}"}}}⟩`)},
		{"satf/chain over tools", 2500, satfNodes(satfInfer("a")+",⟨"+satfTool("${i}")+"⟩,"+satfTool("${n}")+","+satfInfer("z"), edge("a", "0")+",⟨"+edge("${i}", "${i+1}")+"⟩,"+edge("${n}", "z"))},
		{"satf/fan", 2500, satfNodes(satfTool("t")+",⟨"+satfInfer("${i}")+"⟩,"+satfInfer("z"), "⟨"+edge("${i}", "t")+"⟩,"+edge("t", "z"))},
		{"dag/chain", 500, "⟦" + dag("c${i}", `,"spawns":["c${i+1}"]`) + "⟧\n" + dag("c${n}", "") + "\n"},
		{"dag/turns", 1000, `{"session_id":"c","turns":[⟨{"messages":[{"role":"user","content":"hi"}],"max_tokens":5}⟩]}` + "\n"},
		{"dag/wide", 2500, dag("c", `,"spawns":[⟨"c${i}"⟩]`) + "\n⟦" + dag("c${i}", "") + "⟧\n"},
		{"tracelab/one in flight", 2500, "⟦" + tracelab("s", "${date 10i}", "${date 10i+5}") + "⟧\n" + strings.ReplaceAll(tracelab("s", date(0), date(99999999)), "${i}", "${n}") + "\n"},
		{"tracelab/all in flight", 2500, "⟦" + tracelab("s", "${date i}", "${date i+99999999}") + "⟧\n"},
		{"tracelab/sessions", 2500, "⟦" + tracelab("s${i}", "${date i}", "${date i+5}") + "⟧\n"},
		{"otel/spans", 2500, otel("⟨" + otelSpan("${date i+99999999}", "") + "⟩")},
		{"otel/attributes", 10000, strings.ReplaceAll(otel(otelSpan(date(5), `,⟨"a${i}":1⟩`)), "${date i}", date(0))},
		{"copilot/calls", 1000, copilot("⟨" + copilotCall("${date i}", "9999999", `{"type":"System","role":"system","token_len":5}`) + "⟩")},
		{"copilot/messages", 2500, copilot(copilotCall(date(0), "1", user) + "," + copilotCall(date(100), "1", user) + "," + copilotCall(date(200), "1", user))},
		{"bailian/chain", 5000, bailian("${i-1}", "${i+1}")},
		{"bailian/circle", 5000, bailian("${i+1}", "1") + `{"chat_id":${n},"parent_chat_id":0,"timestamp":1,"input_length":16,"output_length":5,"type":"text","turn":1,"hash_ids":[1]}` + "\n" +
			`{"chat_id":999999,"parent_chat_id":-1,"timestamp":1,"input_length":16,"output_length":5,"type":"t","turn":1,"hash_ids":[1]}`},
		{"mooncake/one prefix", 1000, `⟦{"timestamp":${100i},"input_length":10240,"output_length":5,"hash_ids":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,${i}]}⟧` + "\n"},
		{"mooncake/keys of a row", 2500, `{"timestamp":1,"input_length":5,"output_length":5,⟨"k${i}":1⟩}` + "\n"},
		{"mooncake/delays", 5000, `⟦{"session_id":"s","delay":5,"input_length":512,"output_length":5,"hash_ids":[${i}]}⟧` + "\n"},
		{"azure/rows", 5000, "TIMESTAMP,ContextTokens,GeneratedTokens\n⟦${date i},480,10⟧"},
		{"burstgpt/one session", 5000, "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n⟦${i},7,,,48,10,58,API log⟧"},
		{"batch/rows", 2500, `⟦{"custom_id":"r${i}","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"hi"}]}}⟧` + "\n"},
		{"raw_payload/messages", 2500, `{"model":"m","messages":[⟨{"role":"user","content":"hi"}⟩]}` + "\n"},
		{"inputs_json/payloads", 2500, `{"data":[{"session_id":"s","payloads":[⟨{"model":"m","messages":[{"role":"user","content":"hi"}]}⟩]}]}` + "\n"},
		{"sagemaker/rows", 2500, `⟦{"captureData":{"endpointInput":{"observedContentType":"application/json","mode":"INPUT","data":"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}","encoding":"JSON"}},"eventMetadata":{"eventId":"${i}","inferenceTime":"${date i}"},"eventVersion":"0"}⟧` + "\n"},
		{"multi_turn/turns", 500, `{"session_id":"a","turns":[⟨{"text":"hi"},{"role":"assistant","text":"hello"}⟩]}` + "\n"},
		{"sharegpt/turns", 500, `[{"id":"a","conversations":[⟨{"from":"human","value":"hi"},{"from":"gpt","value":"hello"}⟩]}]` + "\n"},
		{"single_turn/one session", 2500, `⟦{"text":"hi ${i}","session_id":"a","delay":5}⟧` + "\n"},
	}
}

// userNS is the processor time that the process has had, without that of the system for it.
func userNS(t *testing.T) int64 {
	var usage syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano()
}

// costs are what it takes to read a file and to look at it as `inspect` and a run do.
type costs struct{ ns, bytes float64 }

func costsOf(t *testing.T, name, file string) costs {
	var before, after runtime.MemStats
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection takes time that is not the reader's
	runtime.ReadMemStats(&before)
	from := userNS(t)
	o := trace.Options{Collect: true}
	tr, err := trace.Read(strings.NewReader(file), name, o)
	must.Do(t, err, name)
	inspection.Analyse(tr, inspection.Options{Read: o})
	turns := workload.FollowPolicy{Think: true, Speed: 1}.Dependencies(tr, tr.Len())
	must.Have((sched.Plan{Requests: tr.Len(), Concurrency: 1}).Following(turns))(t)
	cost := costs{ns: float64(userNS(t) - from)}
	runtime.ReadMemStats(&after)
	cost.bytes = float64(after.TotalAlloc - before.TotalAlloc)
	return cost
}

// How much more a file of four times the size may take. Linear is 4, n log n is up to 5, quadratic is 16.
const (
	mostBytes = 7
	mostTime  = 8
	attempts  = 5
	leastNS   = 20e6 // what takes less is not judged by its time
)

// TestSmallTracesCostLittle compares what files of every format take with what files of four times the size do. A
// processor that others use, too, makes the time of a small file differ by more than four times: its caches are cold.
// So a growth that looks too fast must go on to a file of sixteen times the size, which takes long enough to judge.
func TestSmallTracesCostLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute, and nothing in it runs beside another")
	}
	for _, w := range worlds() {
		t.Run(w.name, func(t *testing.T) {
			growth, bytes := growthOf(t, w, w.n)
			if growth >= mostTime {
				growth, bytes = growthOf(t, w, 4*w.n)
			}
			if bytes > mostBytes || growth >= mostTime && !raceOn() {
				t.Errorf("four times the file takes %.1f times the processor time and %.1f times the memory", growth, bytes)
			}
		})
	}
}

// growthOf returns how much more time and memory a file of four times n takes than one of n: the time by the least of
// several counts of each.
func growthOf(t *testing.T, w world, n int) (growth, bytes float64) {
	small, large := grown(w.text, n), grown(w.text, 4*n)
	leastOfSmall, leastOfLarge := math.Inf(1), math.Inf(1)
	for range attempts {
		a, b := costsOf(t, w.name, small), costsOf(t, w.name, large)
		leastOfSmall, leastOfLarge = min(leastOfSmall, a.ns), min(leastOfLarge, b.ns)
		growth, bytes = leastOfLarge/max(leastOfSmall, leastNS/4), b.bytes/a.bytes
		t.Logf("%d: %.0f and %.0f ms: %.1f times; %.1f times the memory, %.0f MB",
			n, a.ns/1e6, b.ns/1e6, growth, bytes, b.bytes/1e6)
		if bytes > mostBytes || growth < mostTime {
			break
		}
	}
	return growth, bytes
}

// raceOn reports whether the race detector is on, which makes times differ more.
func raceOn() bool { return raceFlag() != nil }

// TestTooMuchIsRefused: what a small file multiplies beyond a bound is refused, in one line, before it is made.
func TestTooMuchIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	const side = 2000
	crowd := "⟦" + tracelab("s", "${date i}", "${date i+20000}") + "⟧\n⟦" + strings.ReplaceAll(tracelab("s", "${date i+24000}", "${date i+224000}"), "${i}", "${i+2000}") + "⟧\n"
	for _, c := range []struct {
		name string
		n    int
		text string
		want string
	}{
		{"dag.jsonl", 39, "⟦" + dag("c${i}", `,"spawns":["c${i+1}","c${i+1}"]`) + "⟧\n" + dag("c${n}", "") + "\n",
			"dag.jsonl:1: conversations that are spawned again make more than 65536 further requests; let fewer"},
		{"forks.jsonl", 3000, `{"session_id":"c","turns":[⟨{"messages":[{"role":"user","content":"` + strings.Repeat("w", 1000) + `"}],"max_tokens":5,"forks":[{"child":"f${i}","background":true}]}⟩]}` + "\n⟦" + dag("f${i}", "") + "⟧\n",
			"forks.jsonl:1: conversations that fork or are spawned again say more than 256 MiB again; let fewer"},
		{"deep.jsonl", 4999, "⟦" + dag("c${i}", `,"spawns":["c${i+1}"]`) + "⟧\n" + dag("c${n}", "") + "\n",
			"deep.jsonl:1: conversations come from each other more than 4096 deep; let fewer"},
		{"nested.jsonl", 1, weka(strings.Repeat(`{"t":0,"type":"subagent","requests":[`, 3000) + `{"t":0,"type":"n","in":6,"out":5}` + strings.Repeat("]}", 3000)),
			"sub-agents are nested more than 100 deep; let fewer"},
		{"depth.jsonl", 1, strings.Replace(agentic(agenticRow("0", "")), `"not_before_ms":0`, `"not_before_ms":0,"depth":2147483647`, 1),
			"depth.jsonl:2: depth 2147483647 is out of range; it must be from 0 to 65536"},
		{"sessions.jsonl", 69999, dynamo(`"s0"`, "", atOnce0, "5", unhashed) + "\n⟦" + dynamo(below, "${i}", atTurns, "5", unhashed) + "⟧\n",
			`sessions.jsonl:65538: session "s65537" is more than 65536 deep below its job's first; let fewer`},
		{"satf.json", side, satfNodes(satfTool("t")+",⟨"+satfInfer("${i}")+","+satfInfer("${i+2000}")+"⟩", "⟨"+edge("${i}", "t")+","+edge("t", "${i+2000}")+"⟩"),
			"satf.json:1: sessions[0]: up to here requests wait for more than 1304576 others in all: each of many at a time waits for many; split"},
		// each of the second half waits for each of the first
		{"rounds.jsonl", side, crowd, "up to here requests wait for more than 1304576 others in all"},
		{"crowd.jsonl", side, weka(`⟨{"t":${i},"type":"n","in":6,"out":5,"api_time":20000}⟩,⟨{"t":${i+24000},"type":"n","in":6,"out":5,"api_time":200000}⟩`),
			"crowd.jsonl:1: up to here requests wait for more than 1304576 others in all"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := trace.Read(strings.NewReader(grown(c.text, c.n)), c.name, trace.Options{})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %.400s; want %s", c.name, fmt.Sprint(err), c.want)
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 3<<10 {
			t.Errorf("%s: %d MB", c.name, mb)
		} else {
			t.Logf("%s: %d MB", c.name, mb)
		}
	}
}
