package bench

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	inspection "github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// world is a file that grows in one direction.
type world struct {
	name string
	n    int // of the smaller of two files; the larger has four times as much
	file func(n int) string
}

// join is the texts of the numbers below n, with something between them.
func join(n int, between string, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(text(i))
	}
	return b.String()
}

func lines(text func(i int) string) func(n int) string {
	return func(n int) string { return join(n, "\n", text) + "\n" }
}

// date is an instant in ms as a date.
func date(ms int) string {
	return fmt.Sprintf("2026-06-%02dT%02d:%02d:%02d.%03dZ", 1+ms/86400000, ms/3600000%24, ms/60000%60, ms/1000%60, ms%1000)
}

func dynamoLine(i, atMS, tookMS int, session, parent, hashes string) string {
	prompt := `"input_tokens":50`
	if hashes != "" {
		prompt = fmt.Sprintf(`"replay":{"trace_block_size":16,"input_length":%d,"input_sequence_hashes":[%s]}`, 16*(1+strings.Count(hashes, ",")), hashes)
	}
	if parent != "" {
		parent = `,"parent_session_id":"` + parent + `"`
	}
	return fmt.Sprintf(`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,"agent_context":{"session_id":%q%s},`+
		`"request":{"request_id":"r%d","output_tokens":5,"request_received_ms":%d,"total_time_ms":%d,%s}}`, 1767603600000+atMS, session, parent, i, 1767603600000+atMS, tookMS, prompt)
}

func wekaFile(requests string) string {
	return `{"id":"t","block_size":64,"hash_id_scope":"local","requests":[` + requests + "]}\n"
}

func agenticFile(rows string) string {
	return `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"x","digest":"1"}}` + "\n" + rows + "\n"
}

func agenticLine(i int, more, waits string) string {
	return fmt.Sprintf(`{"request_id":"r%d","play_id":"p","session_id":"s","model":"m","input_length":64,"output_length":5,"hash_ids":[1],"not_before_ms":0%s,"dependencies":[%s]}`, i, more, waits)
}

func waitFor(i int, relation string) string {
	return fmt.Sprintf(`{"request_id":"r%d","trigger":"completion","delay_ms":1,"relation":%q}`, i, relation)
}

func satfFile(sessions string) string {
	return `{"format":"satf","format_version":"2.0.0","time_base":"us","block_size_tokens":64,"sessions":[` + sessions + "]}\n"
}

func satfInfer(id string) string {
	return fmt.Sprintf(`{"kind":"llm_infer","id":%q,"duration_us":9,"min_start_delay_us":0,"payload":{"input_tokens_total":64,"output_tokens":5,"kv_block_ids":[1]}}`, id)
}

func satfTool(id string) string {
	return fmt.Sprintf(`{"kind":"tool_call","id":%q,"duration_us":1}`, id)
}

func edge(from, to string) string { return fmt.Sprintf(`{"from":%q,"to":%q}`, from, to) }

func dagLine(name, more string) string {
	return fmt.Sprintf(`{"session_id":%q,"turns":[{"messages":[{"role":"user","content":"hi"}],"max_tokens":5%s}]}`, name, more)
}

func roundLine(i, atMS, tookMS int, session string) string {
	return fmt.Sprintf(`{"provider":"claude","session_id":%q,"round_index":%d,"model":"m","input_tokens_total":%d,"prefix_tokens":0,"newly_append_tokens":5,"output_tokens":5,`+
		`"timing_events":[{"event_type":"user_message","timestamp":%q},{"event_type":"text","timestamp":%q}]}`, session, i, 640, date(atMS), date(atMS+tookMS))
}

func spanOf(atMS, tookMS int, more string) string {
	return fmt.Sprintf(`{"type":"llm_call","start_time":%q,"end_time":%q,"attributes":{"gen_ai.request.model":"m","gen_ai.usage.input_tokens":640,"gen_ai.usage.output_tokens":7%s}}`,
		date(atMS), date(atMS+tookMS), more)
}

func copilotCallOf(atMS, tookMS int, messages string) string {
	return fmt.Sprintf(`{"message_id":"m","timestamp":%q,"duration_ms":%d,"model":"A","status_code":"OK","tokens":{"total":700,"prompt":640,"completion":60,"cached":0},"message_metadata":[%s]}`,
		date(atMS), tookMS, messages)
}

// worlds has files of every format, each of which grows in one direction: chains, fans, depth, names, waits, ids.
func worlds() []world {
	one := func(text string) func(int) string { return func(int) string { return text } }
	number := func(prefix string) func(int) string { return func(i int) string { return fmt.Sprint(prefix, i) } }
	return []world{
		{"dynamo/chain of sessions", 2500, lines(func(i int) string {
			parent := ""
			if i > 0 {
				parent = fmt.Sprint("s", i-1)
			}
			return dynamoLine(i, i, 5, fmt.Sprint("s", i), parent, "1,2")
		})},
		{"dynamo/chain of sessions, each in the one before", 2500, lines(func(i int) string {
			parent := ""
			if i > 0 {
				parent = fmt.Sprint("s", i-1)
			}
			return dynamoLine(i, i, 900000-2*i, fmt.Sprint("s", i), parent, "1,2")
		})},
		{"dynamo/many sessions of one", 2500, lines(func(i int) string {
			if i == 0 {
				return dynamoLine(0, 0, 5, "s", "", "1,2")
			}
			return dynamoLine(i, i, 5, fmt.Sprint("s", i), "s", "1,2")
		})},
		{"dynamo/one session, nothing shared", 2500, lines(func(i int) string { return dynamoLine(i, i, 5, "s", "", fmt.Sprint(i)) })},
		{"dynamo/one session, all in flight", 2500, lines(func(i int) string { return dynamoLine(i, i, 99999999, "s", "", "1") })},
		{"dynamo/one session, no hashes, all in flight", 2500, lines(func(i int) string { return dynamoLine(i, i, 99999999, "s", "", "") })},
		{"dynamo/one session, no hashes, one in flight", 2500, lines(func(i int) string {
			if i == 0 {
				return dynamoLine(i, i, 99999999, "s", "", "")
			}
			return dynamoLine(i, i*10, 5, "s", "", "")
		})},
		{"dynamo/equal times", 2500, lines(func(i int) string { return dynamoLine(i, 0, 0, "s", "", "1") })},
		{"dynamo/backwards", 2500, func(n int) string {
			return join(n, "\n", func(i int) string { return dynamoLine(i, n-i, 3, "s", "", "1") })
		}},
		{"weka/sub-agents of one name", 2500, func(n int) string {
			return wekaFile(join(n, ",", func(i int) string {
				return fmt.Sprintf(`{"t":%d,"type":"subagent","agent_id":"a","duration_ms":900,"requests":[{"t":0,"type":"n","in":65,"out":5,"hash_ids":[1],"api_time":0.5}]}`, i)
			}))
		}},
		{"weka/sub-agents between requests", 2500, func(n int) string {
			return wekaFile(join(n, ",", func(i int) string {
				return fmt.Sprintf(`{"t":%d,"type":"n","in":65,"out":5,"hash_ids":[1],"api_time":0.5},{"t":%d,"type":"subagent","duration_ms":900,"requests":[{"t":0,"type":"n","in":65,"out":5,"hash_ids":[1],"api_time":99999}]}`, 2*i, 2*i+1)
			}))
		}},
		{"weka/requests in a line", 2500, func(n int) string {
			return wekaFile(join(n, ",", func(i int) string {
				return fmt.Sprintf(`{"t":%d,"type":"n","in":65,"out":5,"hash_ids":[%d],"api_time":0.5}`, i, i)
			}))
		}},
		{"weka/requests without ids, all in flight", 2500, func(n int) string {
			return wekaFile(join(n, ",", func(i int) string { return fmt.Sprintf(`{"t":%d,"type":"n","in":6,"out":5,"api_time":999999}`, i) }))
		}},
		{"weka/ids of a request", 10000, func(n int) string {
			return wekaFile(fmt.Sprintf(`{"t":0,"type":"n","in":%d,"out":5,"hash_ids":[%s]}`, 64*n, join(n, ",", number(""))))
		}},
		{"agentic/one waits for many", 15000, func(n int) string {
			return agenticFile(join(n, "\n", func(i int) string { return agenticLine(i, "", "") }) + "\n" +
				agenticLine(n, "", join(n, ",", func(i int) string { return waitFor(i, "join") })))
		}},
		{"agentic/many wait for one", 2500, func(n int) string {
			return agenticFile(agenticLine(0, "", "") + "\n" + join(n, "\n", func(i int) string { return agenticLine(i+1, "", waitFor(0, "spawn")) }))
		}},
		{"agentic/chain backwards", 2500, func(n int) string {
			return agenticFile(join(n, "\n", func(i int) string {
				if i == n-1 {
					return agenticLine(i, "", "")
				}
				return agenticLine(i, "", waitFor(i+1, "sequence"))
			}))
		}},
		{"agentic/circles", 2500, func(n int) string {
			return agenticFile(join(n, "\n", func(i int) string {
				return agenticLine(i, "", waitFor((i+1)%n, "sequence")+","+waitFor(0, "sequence"))
			}) + "\n" + agenticLine(n, "", ""))
		}},
		{"agentic/one name for all", 2500, func(n int) string {
			return agenticFile(agenticLine(1, "", "") + "\n" + join(n, "\n", func(int) string { return agenticLine(0, "", "") }))
		}},
		{"satf/chain of sessions", 2500, func(n int) string {
			return satfFile(join(n, ",", func(i int) string {
				parent := ""
				if i > 0 {
					parent = fmt.Sprintf(`,"extensions":{"nvidia.dynamo":{"parent_session_id":"s%d"}}`, i-1)
				}
				return fmt.Sprintf(`{"session_id":"s%d","nodes":[%s],"edges":[]%s}`, i, satfInfer("0"), parent)
			}))
		}},
		{"satf/chain over tools", 2500, func(n int) string {
			return satfFile(`{"session_id":"s","nodes":[` + satfInfer("a") + "," + join(n, ",", func(i int) string { return satfTool(fmt.Sprint(i)) }) + "," + satfInfer("z") +
				`],"edges":[` + edge("a", "0") + "," + join(n-1, ",", func(i int) string { return edge(fmt.Sprint(i), fmt.Sprint(i+1)) }) + "," + edge(fmt.Sprint(n-1), "z") + `]}`)
		}},
		{"satf/fan", 2500, func(n int) string {
			return satfFile(`{"session_id":"s","nodes":[` + satfTool("t") + "," + join(n, ",", func(i int) string { return satfInfer(fmt.Sprint(i)) }) + "," + satfInfer("z") +
				`],"edges":[` + join(n, ",", func(i int) string { return edge(fmt.Sprint(i), "t") }) + "," + edge("t", "z") + `]}`)
		}},
		{"dag/chain", 500, func(n int) string {
			return join(n-1, "\n", func(i int) string { return dagLine(fmt.Sprint("c", i), fmt.Sprintf(`,"spawns":["c%d"]`, i+1)) }) + "\n" + dagLine(fmt.Sprint("c", n-1), "") + "\n"
		}},
		{"dag/turns", 1000, func(n int) string {
			return `{"session_id":"c","turns":[` + join(n, ",", one(`{"messages":[{"role":"user","content":"hi"}],"max_tokens":5}`)) + "]}\n"
		}},
		{"dag/wide", 2500, func(n int) string {
			return dagLine("c", `,"spawns":[`+join(n, ",", func(i int) string { return fmt.Sprintf(`"c%d"`, i) })+"]") + "\n" +
				join(n, "\n", func(i int) string { return dagLine(fmt.Sprint("c", i), "") }) + "\n"
		}},
		{"tracelab/one in flight", 2500, lines(func(i int) string {
			if i == 0 {
				return roundLine(i, 0, 99999999, "s")
			}
			return roundLine(i, 10*i, 5, "s")
		})},
		{"tracelab/all in flight", 2500, lines(func(i int) string { return roundLine(i, i, 99999999, "s") })},
		{"tracelab/sessions", 2500, lines(func(i int) string { return roundLine(i, i, 5, fmt.Sprint("s", i)) })},
		{"otel/spans", 2500, func(n int) string {
			return `{"session_id":"s","spans":[` + join(n, ",", func(i int) string { return spanOf(i, 99999999, "") }) + "]}\n"
		}},
		{"otel/attributes", 10000, func(n int) string {
			return `{"session_id":"s","spans":[` + spanOf(0, 5, ","+join(n, ",", func(i int) string { return fmt.Sprintf(`"a%d":1`, i) })) + "]}\n"
		}},
		{"copilot/calls", 1000, func(n int) string {
			return `{"session_id":"s","date":"2026-06-01","turns":[{"turn_id":"t","llm_calls":[` +
				join(n, ",", func(i int) string {
					return copilotCallOf(i, 9999999, `{"type":"System","role":"system","token_len":5}`)
				}) + "]}]}\n"
		}},
		{"copilot/messages", 2500, func(n int) string {
			return `{"session_id":"s","date":"2026-06-01","turns":[{"turn_id":"t","llm_calls":[` +
				join(3, ",", func(i int) string {
					return copilotCallOf(100*i, 1, join(n, ",", one(`{"type":"User","role":"user","token_len":1}`)))
				}) + "]}]}\n"
		}},
		{"bailian/chain", 5000, lines(func(i int) string {
			return fmt.Sprintf(`{"chat_id":%d,"parent_chat_id":%d,"timestamp":%d,"input_length":16,"output_length":5,"type":"text","turn":%d,"hash_ids":[1]}`, i, i-1, i, i+1)
		})},
		{"bailian/circle", 5000, func(n int) string {
			return join(n, "\n", func(i int) string {
				return fmt.Sprintf(`{"chat_id":%d,"parent_chat_id":%d,"timestamp":%d,"input_length":16,"output_length":5,"type":"text","turn":1,"hash_ids":[1]}`, i, (i+1)%n, i)
			}) + "\n" + `{"chat_id":999999,"parent_chat_id":-1,"timestamp":1,"input_length":16,"output_length":5,"type":"t","turn":1,"hash_ids":[1]}`
		}},
		{"mooncake/one prefix", 1000, lines(func(i int) string {
			return fmt.Sprintf(`{"timestamp":%d,"input_length":10240,"output_length":5,"hash_ids":[%s,%d]}`, i*100, join(19, ",", number("")), i)
		})},
		{"mooncake/keys of a row", 2500, func(n int) string {
			return `{"timestamp":1,"input_length":5,"output_length":5,` + join(n, ",", func(i int) string { return fmt.Sprintf(`"k%d":1`, i) }) + "}\n"
		}},
		{"mooncake/delays", 5000, lines(func(i int) string {
			return fmt.Sprintf(`{"session_id":"s","delay":5,"input_length":512,"output_length":5,"hash_ids":[%d]}`, i)
		})},
		{"azure/rows", 5000, func(n int) string {
			return "TIMESTAMP,ContextTokens,GeneratedTokens\n" + join(n, "\n", func(i int) string {
				return fmt.Sprintf("2023-11-16 18:%02d:%02d.%03d0000,480,10", i/60000, i/1000%60, i%1000)
			})
		}},
		{"burstgpt/one session", 5000, func(n int) string {
			return "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n" +
				join(n, "\n", func(i int) string { return fmt.Sprintf("%d,7,,,48,10,58,API log", i) })
		}},
		{"batch/rows", 2500, lines(func(i int) string {
			return fmt.Sprintf(`{"custom_id":"r%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"hi"}]}}`, i)
		})},
		{"raw_payload/messages", 2500, func(n int) string {
			return `{"model":"m","messages":[` + join(n, ",", one(`{"role":"user","content":"hi"}`)) + "]}\n"
		}},
		{"inputs_json/payloads", 2500, func(n int) string {
			return `{"data":[{"session_id":"s","payloads":[` + join(n, ",", one(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)) + "]}]}\n"
		}},
		{"sagemaker/rows", 2500, lines(func(i int) string {
			return fmt.Sprintf(`{"captureData":{"endpointInput":{"observedContentType":"application/json","mode":"INPUT","data":"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}","encoding":"JSON"}},"eventMetadata":{"eventId":"%d","inferenceTime":"2026-06-01T09:00:%02dZ"},"eventVersion":"0"}`, i, i%60)
		})},
		{"multi_turn/turns", 500, func(n int) string {
			return `{"session_id":"a","turns":[` + join(n, ",", one(`{"text":"hi"},{"role":"assistant","text":"hello"}`)) + "]}\n"
		}},
		{"sharegpt/turns", 500, func(n int) string {
			return `[{"id":"a","conversations":[` + join(n, ",", one(`{"from":"human","value":"hi"},{"from":"gpt","value":"hello"}`)) + "]}]\n"
		}},
		{"single_turn/one session", 2500, lines(func(i int) string { return fmt.Sprintf(`{"text":"hi %d","session_id":"a","delay":5}`, i) })},
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
	small, large := w.file(n), w.file(4*n)
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
	doubling := lines(func(i int) string {
		if i == 39 {
			return dagLine("c39", "")
		}
		return dagLine(fmt.Sprint("c", i), fmt.Sprintf(`,"spawns":["c%d","c%d"]`, i+1, i+1))
	})(40)
	forks := `{"session_id":"c","turns":[` + join(3000, ",", func(i int) string {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":"%s"}],"max_tokens":5,"forks":[{"child":"f%d","background":true}]}`, strings.Repeat("w", 1000), i)
	}) + "]}\n" + lines(func(i int) string { return dagLine(fmt.Sprint("f", i), "") })(3000)
	deep := lines(func(i int) string {
		if i == 4999 {
			return dagLine("c4999", "")
		}
		return dagLine(fmt.Sprint("c", i), fmt.Sprintf(`,"spawns":["c%d"]`, i+1))
	})(5000)
	nested := wekaFile(strings.Repeat(`{"t":0,"type":"subagent","requests":[`, 3000) + `{"t":0,"type":"n","in":6,"out":5}` + strings.Repeat("]}", 3000))
	const side = 2000
	crowd := func(i int) (atMS, tookMS int) { // each of the second half waits for each of the first
		if i < side {
			return i, 10 * side
		}
		return 11*side + i, 100 * side
	}
	ancestors := lines(func(i int) string {
		parent := ""
		if i > 0 {
			parent = fmt.Sprint("s", i-1)
		}
		return dynamoLine(i, i, 5, fmt.Sprint("s", i), parent, "")
	})(70000)
	bipartite := satfFile(`{"session_id":"s","nodes":[` + satfTool("t") + "," + join(2*side, ",", func(i int) string { return satfInfer(fmt.Sprint(i)) }) +
		`],"edges":[` + join(side, ",", func(i int) string { return edge(fmt.Sprint(i), "t") + "," + edge("t", fmt.Sprint(side+i)) }) + `]}`)
	for _, c := range []struct{ name, file, want string }{
		{"dag.jsonl", doubling, "dag.jsonl:1: conversations that are spawned again make more than 65536 further requests; let fewer"},
		{"forks.jsonl", forks, "forks.jsonl:1: conversations that fork or are spawned again say more than 256 MiB again; let fewer"},
		{"deep.jsonl", deep, "deep.jsonl:1: conversations come from each other more than 4096 deep; let fewer"},
		{"nested.jsonl", nested, "sub-agents are nested more than 100 deep; let fewer"},
		{"depth.jsonl", agenticFile(agenticLine(0, `,"depth":2147483647`, "")), "depth.jsonl:2: depth 2147483647 is out of range; it must be from 0 to 65536"},
		{"sessions.jsonl", ancestors, `sessions.jsonl:65538: session "s65537" is more than 65536 deep below its job's first; let fewer`},
		{"satf.json", bipartite, "satf.json:1: sessions[0]: up to here requests wait for more than 1304576 others in all: each of many at a time waits for many; split"},
		{"rounds.jsonl", lines(func(i int) string {
			at, took := crowd(i)
			return roundLine(i, at, took, "s")
		})(2 * side), "up to here requests wait for more than 1304576 others in all"},
		{"crowd.jsonl", wekaFile(join(2*side, ",", func(i int) string {
			at, took := crowd(i)
			return fmt.Sprintf(`{"t":%d,"type":"n","in":6,"out":5,"api_time":%d}`, at, took)
		})), "crowd.jsonl:1: up to here requests wait for more than 1304576 others in all"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := trace.Read(strings.NewReader(c.file), c.name, trace.Options{})
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
