package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
			return slices.Contains(keys, "schema") && slices.Contains(keys, "hash_id_scope") ||
				slices.Contains(keys, "play_id") && slices.Contains(keys, "not_before_ms")
		},
		items:     ofMembers(readAgentic),
		prepare:   prepareAgentic,
		appendRow: appendAgentic,
	}
}

func readAgentic(out *items, all []member) error {
	if valueOf(all, "schema") != nil {
		return readAgenticHead(out, all)
	}
	if !out.p.headed {
		return &rowError{"no head before the first row", `the first line must be {"schema":"` + agenticSchema + `","version":2,"block_size":…,"hash_id_scope":"local",…}`}
	}
	r := out.add()
	if err := out.readNames(r, all); err != nil {
		return err
	}
	for _, f := range []field{timestampField, inputField, outputField, idsField, textField, messagesField, payloadField, toolsField, extraField} {
		key := usualNames()[f]
		if value := firstOf(all, key, strings.Replace(key, "put_length", "put_tokens", 1)); value != nil {
			if err := out.set(r, f, value); err != nil {
				return err
			}
		}
	}
	seen := r.seen
	if seen&setOf(textField, messagesField, payloadField) != 0 {
		r.seen &^= setOf(inputField) // what is verbatim may have a length, too
	}
	if err := checkMooncake(out.p.format, r); err != nil {
		return err
	}
	r.seen = seen
	if !out.p.shared {
		out.scopes.renumber(r.agent.job, r.ids)
	}
	return r.readRecorded(all)
}

// readAgenticHead takes the first line.
func readAgenticHead(out *items, all []member) error {
	out.p.headed = true
	why := "only version 2 of Dynamo's agentic Mooncake traces can be read"
	schema, err := nameOf(all, "schema", why)
	if err != nil {
		return err
	}
	switch version, err := countOf(all, "version", math.MaxInt32); {
	case err != nil:
		return err
	case schema != agenticSchema:
		return &rowError{"schema is " + quote([]byte(schema)) + ", not " + quote([]byte(agenticSchema)), why}
	case version != agenticVersion:
		return &rowError{fmt.Sprintf("version is %s, not %d", firstOf(all, "version"), agenticVersion), why}
	}
	scope, err := nameOf(all, "hash_id_scope", `write "local" if ids are a play's own`)
	if err != nil {
		return err
	}
	if out.p.shared = scope == "global"; !out.p.shared && scope != "local" {
		return &rowError{"hash_id_scope is " + quote([]byte(scope)), `it must be "local" or "global"`}
	}
	size, err := countOf(all, "block_size", maxTokens)
	if err == nil && size < 1 {
		err = &rowError{"missing block_size", "it is the number of tokens that a block id stands for"}
	}
	out.blocks = int(size)
	return cmp.Or(err, errHead)
}

// readNames takes what a row is called and what it depends on.
func (out *items) readNames(r *row, all []member) error {
	play, err := nameOf(all, "play_id", "it names the task")
	if err != nil {
		return err
	}
	session, err := nameOf(all, "session_id", "it names the agent's conversation")
	if err != nil {
		return err
	}
	r.agent.job = play
	r.setSession([]byte(agenticSession(play, session)))
	if r.agent.request, err = nameOf(all, "request_id", "dependencies refer to it"); err != nil {
		return err
	}
	r.agent.dependencies = []Dependency{} // none is none, whatever the conversation
	return listIn(all, "dependencies", func(_ int, object []byte) error {
		parts, err := membersOf(object)
		if err != nil {
			return err
		}
		var d requestDependency
		if d.request, err = nameOf(parts, "request_id", "it names the request that this one waits for"); err != nil {
			return err
		}
		if d.Trigger, err = oneOf[Trigger](parts, "trigger", triggerNames()); err != nil {
			return err
		}
		if d.Relation, err = oneOf[Relation](parts, "relation", relationNames()); err != nil {
			return err
		}
		if d.DelayNS, err = spanOf(parts, "delay_ms", 6); err != nil {
			return err
		}
		if d.DelayNS == noValue {
			return &rowError{"missing delay_ms", "it is the time from the trigger to the request"}
		}
		if string(valueOf(parts, "recorded")) == "false" {
			d.DelayNS = NoDelay
		}
		r.agent.named = append(r.agent.named, d)
		return nil
	})
}

// agenticSession is the name of a conversation among those of all plays.
func agenticSession(play, session string) string {
	if session == play || len(session) > len(play) && session[:len(play)] == play && session[len(play)] == '/' {
		return session
	}
	return play + "/" + session
}

// readRecorded takes what was recorded of a row, and its bound. A bound that holds in any case is none.
func (r *row) readRecorded(all []member) (err error) {
	a := &r.agent
	for _, v := range []struct {
		key string
		ns  *int64
	}{{"not_before_ms", &a.notBeforeNS}, {"recorded_api_time_ms", &a.tookNS}, {"ttft_ms", &a.ttftNS}} {
		if *v.ns, err = spanOf(all, v.key, 6); err != nil {
			return err
		}
	}
	if a.notBeforeNS == noValue {
		return &rowError{"missing not_before_ms", "write 0 for a request that only waits for its dependencies"}
	}
	if len(a.named) > 0 && a.notBeforeNS == 0 || len(a.named) == 0 && r.seen.has(timestampField) && a.notBeforeNS <= r.timeNS {
		a.notBeforeNS = noValue
	}
	cached, err := countOf(all, "cached_tokens", maxTokens)
	if err != nil {
		return err
	}
	depth, err := countOf(all, "depth", math.MaxInt32)
	a.cached, a.depth = int32(cached), int32(depth)
	return err
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
	dst = strconv.AppendInt(append(dst, `{"request_id":"r`...), int64(i), 10)
	dst = appendString(append(dst, `","play_id":`...), play)
	dst = appendString(append(dst, `,"session_id":`...), session)
	dst = append(appendString(append(dst, `,"model":`...), cmp.Or(t.words.Model, "unknown")), ',')
	dst = appendTimestamp(dst, t, i)
	dst = appendPrompt(dst, t, i)
	if n := t.InputTokens[i]; n > 0 && t.Verbatim(i).Kind != NoVerbatim {
		dst = strconv.AppendInt(append(dst, `,"input_length":`...), int64(n), 10)
	}
	dst = append(appendAsked(dst, t, i), `,"not_before_ms":`...)
	waits := a.graph.waitsOf(i)
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
		dst = strconv.AppendInt(append(dst, `,"cached_tokens":`...), int64(t.Cached[i]), 10)
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
