package trace

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The head of a file of agenticMooncake.
const (
	agenticSchema  = "dynamo.agentic_mooncake"
	agenticVersion = 2
)

// agenticMooncake is version 2 of Dynamo's agentic Mooncake traces, a head and then a line a request:
//
//	{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"weka","digest":"…"}}
//	{"request_id":"r2","play_id":"p1","session_id":"s1","model":"m","input_length":140,"output_length":9,"hash_ids":[1,2,3],
//	 "not_before_ms":80,"dependencies":[{"request_id":"r1","trigger":"completion","delay_ms":12,"relation":"sequence"}]}
//
// as lib/mocker of https://github.com/ai-dynamo/dynamo reads it, which skips keys that it does not know. A play is a job.
// Ids and names of sessions are a play's own. A request waits for its dependencies, and not_before_ms is a bound beside
// them on the file's clock; of one without dependencies it is the instant. recorded_api_time_ms is how long it took.
//
// Keys of fastreplay's own keep what Dynamo has no place for: timestamp, ttft_ms, cached_tokens, depth, what is verbatim
// as in Mooncake's rows, "recorded":false beside a delay that was not recorded, and "hash_id_scope":"global" where jobs
// have blocks in common.
func agenticMooncake() *format {
	names := mooncake().names
	names[delayField] = "delay_ms"
	return &format{
		name:        "agentic_mooncake",
		unit:        time.Millisecond,
		surely:      true,
		blockTokens: 64, // of the head
		either:      true,
		names:       names,
		known: func(keys []string) bool {
			return hasKeys("schema", "hash_id_scope")(keys) || hasKeys("play_id", "not_before_ms")(keys)
		},
		items:     ofObject(readAgentic),
		prepare:   prepareAgentic,
		appendRow: appendAgentic,
	}
}

func readAgentic(out *items, o object) {
	if o.has("schema") {
		readAgenticHead(out, o)
		return
	}
	if !out.l.parser.headed {
		o.fail("no head before the first row", `the first line must be {"schema":"`+agenticSchema+`","version":2,"block_size":…,"hash_id_scope":"local",…}`)
	}
	r := out.add()
	r.agent.job = o.name("play_id", "it names the task")
	r.setSession([]byte(agenticSession(r.agent.job, o.name("session_id", "it names the agent's conversation"))))
	r.agent.request = o.name("request_id", "dependencies refer to it")
	r.agent.dependencies = []Dependency{} // none is none, whatever the conversation
	o.each("dependencies", func(_ int, o object) {
		d := requestDependency{o.name("request_id", "it names the request that this one waits for"), Dependency{
			Trigger: oneOf[Trigger](o, "trigger", triggerNames()), Relation: oneOf[Relation](o, "relation", relationNames()), DelayNS: o.span("delay_ms", 6)}}
		o.need("delay_ms", "it is the time from the trigger to the request")
		if string(o.value("recorded")) == "false" {
			d.DelayNS = NoDelay
		}
		r.agent.named = append(r.agent.named, d)
	})
	for _, f := range []field{timestampField, inputField, outputField, idsField, textField, messagesField, payloadField, toolsField, extraField} {
		key := usualNames()[f]
		if value := o.value(key, strings.Replace(key, "put_length", "put_tokens", 1)); value != nil && o.ok() {
			out.set(r, f, value)
		}
	}
	seen := r.seen
	if seen&setOf(textField, messagesField, payloadField) != 0 {
		r.seen &^= setOf(inputField) // what is verbatim may have a length, too
	}
	o.note(checkMooncake(out.l.parser.format, r))
	r.seen = seen
	if !out.l.parser.shared && o.ok() {
		out.l.scopes.renumber(r.agent.job, r.ids)
	}
	r.readRecorded(o)
}

// readAgenticHead takes the first line.
func readAgenticHead(out *items, o object) {
	out.l.parser.headed = true
	why := "only version 2 of Dynamo's agentic Mooncake traces can be read"
	if schema := o.name("schema", why); schema != agenticSchema {
		o.fail("schema is "+quote(schema)+", not "+quote(agenticSchema), why)
	}
	if o.count("version", math.MaxInt32) != agenticVersion {
		o.fail(fmt.Sprintf("version is %s, not %d", o.value("version"), agenticVersion), why)
	}
	scope := o.name("hash_id_scope", `write "local" if ids are a play's own`)
	if out.l.parser.shared = scope == "global"; !out.l.parser.shared && scope != "local" {
		o.fail("hash_id_scope is "+quote(scope), `it must be "local" or "global"`)
	}
	out.blocks = o.blocks("block_size")
	o.note(errHead)
}

// agenticSession is the name of a conversation among those of all plays.
func agenticSession(play, session string) string {
	if session == play || strings.HasPrefix(session, play+"/") {
		return session
	}
	return play + "/" + session
}

// readRecorded takes what was recorded of a row, and its bound. A bound that holds in any case is none.
func (r *row) readRecorded(o object) {
	a := &r.agent
	o.need("not_before_ms", "write 0 for a request that only waits for its dependencies")
	a.notBeforeNS, a.tookNS, a.ttftNS = o.span("not_before_ms", 6), o.span("recorded_api_time_ms", 6), o.span("ttft_ms", 6)
	if len(a.named) > 0 && a.notBeforeNS == 0 || len(a.named) == 0 && r.seen.has(timestampField) && a.notBeforeNS <= r.timeNS {
		a.notBeforeNS = noValue
	}
	a.cached, a.depth = int32(o.count("cached_tokens", maxTokens)), int32(o.count("depth", mostDepth))
}

func appendAgentic(dst []byte, t *Trace, i int) []byte {
	a := t.agentic
	play := a.plays[a.job[i]]
	session, named := t.sessionName(i)
	if !named {
		session = play
		if t.JobName(i) != "" {
			session = "row-" + strconv.Itoa(int(t.Row[i]))
		}
	}
	dst = appendInt(dst, `{"request_id":"r`, i)
	dst = appendString(append(dst, `","play_id":`...), play)
	dst = appendString(append(dst, `,"session_id":`...), session)
	dst = append(appendString(append(dst, `,"model":`...), cmp.Or(t.words.Model, "unknown")), ',')
	dst = appendTimestamp(dst, t, i)
	dst = appendPrompt(dst, t, i)
	if n := t.InputTokens[i]; n > 0 && t.Verbatim(i).Kind != NoVerbatim {
		dst = appendInt(dst, `,"input_length":`, n)
	}
	dst = append(appendAsked(dst, t, i), `,"not_before_ms":`...)
	waits := a.graph.Of(i)
	dst = appendDecimal(dst, t.bound(i, len(waits) == 0), 6)
	for _, v := range []struct {
		key string
		ns  []int64
	}{{"recorded_api_time_ms", t.TookNS}, {"ttft_ms", t.TTFTNS}} {
		if v.ns != nil && v.ns[i] >= 0 {
			dst = appendDecimal(append(append(append(dst, `,"`...), v.key...), `":`...), v.ns[i], 6)
		}
	}
	if t.Cached != nil && t.Cached[i] >= 0 {
		dst = appendInt(dst, `,"cached_tokens":`, t.Cached[i])
	}
	if t.HasDependencies() {
		dst = append(dst, `,"depth":`...)
		if t.Depth == nil {
			dst = append(dst, '0')
		} else {
			dst = strconv.AppendInt(dst, int64(t.Depth[i]), 10)
		}
	}
	between := `,"dependencies":[`
	for _, w := range waits {
		dst = fmt.Appendf(append(dst, between...), `{"request_id":"r%d","trigger":%q,"delay_ms":`, w.On, w.Trigger)
		dst = appendDecimal(dst, max(0, w.DelayNS), 6)
		dst = fmt.Appendf(dst, `,"relation":%q`, w.Relation)
		if w.DelayNS == NoDelay {
			dst = append(dst, `,"recorded":false`...)
		}
		dst, between = append(dst, '}'), ","
	}
	if len(waits) > 0 {
		dst = append(dst, ']')
	}
	return append(appendIDs(dst, t.Blocks(i)), '}')
}
