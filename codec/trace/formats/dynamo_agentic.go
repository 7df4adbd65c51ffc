package formats

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// The head of a file of agenticMooncake.
const (
	agenticSchema  = "dynamo.agentic_mooncake"
	agenticVersion = 2
)

// agenticMooncake is version 2 of Dynamo's agentic Mooncake traces, a head and then a line a request:
//
//	{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"weka",
//	 "digest":"…"}}
//	{"request_id":"r2","play_id":"p1","session_id":"s1","model":"m","input_length":140,"output_length":9,
//	 "hash_ids":[1,2,3],
//	 "not_before_ms":80,"dependencies":[{"request_id":"r1","trigger":"completion","delay_ms":12,
//	 "relation":"sequence"}]}
//
// as lib/mocker of https://github.com/ai-dynamo/dynamo reads it, which skips keys that it does not know. A play is a
// job. Ids and names of sessions are a play's own. A request waits for its dependencies, and not_before_ms is a bound
// beside them on the file's clock; of one without dependencies it is the instant. recorded_api_time_ms is how long it
// took.
//
// Keys of fastreplay's own keep what Dynamo has no place for: timestamp, ttft_ms, cached_tokens, depth, and what is
// verbatim, as in Mooncake's rows. "recorded":false stands beside a delay that was not recorded, and "hash_id_scope" is
// "global" where jobs have blocks in common.
func agenticMooncake() *Format {
	a := &agenticFile{}
	names := mooncake().Names
	names[rows.DelayField] = "delay_ms"
	return &Format{
		Name:        "agentic_mooncake",
		Layout:      rows.Layout{Names: names},
		BlockTokens: 64,
		LastBlock:   MayHaveID, // tokens of the head
		Import: &Importer{
			Match: anyOf(hasKeys("schema", "hash_id_scope"), hasKeys("play_id", "not_before_ms")),
			Read:  a.read,
		},
		Write: &Writer{
			Graph:   true,
			Prepare: a.prepare,
			Append:  a.append,
		},
	}
}

// agenticFile is what the reader knows of the file, and the writer.
type agenticFile struct {
	headOf *File // whose head was read
	global bool  // its ids are those of all jobs
	scopes agents.Scopes

	plays []string // names of jobs that are written
	names uniqueNames
}

func (a *agenticFile) read(b *Batch, o object) {
	if o.Has("schema") {
		a.readHead(b, o)
		return
	}
	if a.headOf != b.File {
		o.Fail("no head before the first row",
			`the first line must be {"schema":"`+agenticSchema+
				`","version":2,"block_size":…,"hash_id_scope":"local",…}`)
	}
	r := b.add()
	r.Job = o.Name("play_id", "it names the task")
	session := o.Name("session_id", "it names the agent's conversation")
	if session != r.Job && !strings.HasPrefix(session, r.Job+"/") { // other plays have the same names
		session = r.Job + "/" + session
	}
	r.SetSession([]byte(session))
	r.Request = o.Name("request_id", "dependencies refer to it")
	r.Dependencies = []agents.Dependency{} // none is none, whatever the conversation
	o.Each("dependencies", func(_ int, o object) {
		d := rows.NamedDependency{Request: o.Name("request_id", "it names the request that this one waits for")}
		d.Trigger = rows.OneOf[agents.Trigger](o, "trigger", agents.TriggerNames())
		d.Relation = rows.OneOf[agents.Relation](o, "relation", agents.RelationNames())
		d.DelayNS = o.Span("delay_ms", 6)
		o.Need("delay_ms", "it is the time from the trigger to the request")
		if string(o.Value("recorded")) == "false" {
			d.DelayNS = agents.NoDelay
		}
		r.Named = append(r.Named, d)
	})
	for _, f := range []rows.Field{
		rows.TimestampField, rows.InputField, rows.OutputField, rows.HashIDsField, rows.TextField, rows.MessagesField,
		rows.PayloadField, rows.ToolsField, rows.ExtraField,
	} {
		key := rows.UsualNames()[f]
		value := o.Value(key, strings.Replace(key, "put_length", "put_tokens", 1))
		if value != nil && o.OK() {
			b.set(r, f, value)
		}
	}
	checked := *r
	if r.Verbatim.Kind != rows.NoVerbatim {
		checked.Seen &^= rows.SetOf(rows.InputField) // what is verbatim may have a length, too
	}
	o.Note(checkMooncake(b.reader.Layout(), &checked))
	if !a.global && o.OK() {
		a.scopes.Renumber(r.Job, r.IDs)
	}
	setRecorded(r, o)
}

// readHead takes the first line.
func (a *agenticFile) readHead(b *Batch, o object) {
	a.headOf = b.File
	why := "only version 2 of Dynamo's agentic Mooncake traces can be read"
	schema := o.Name("schema", why)
	if schema != agenticSchema {
		o.Fail("schema is "+rows.Quote(schema)+", not "+rows.Quote(agenticSchema), why)
	}
	if o.Count("version", math.MaxInt32) != agenticVersion {
		o.Fail(fmt.Sprintf("version is %s, not %d", o.Value("version"), agenticVersion), why)
	}
	scope := o.Name("hash_id_scope", `write "local" if ids are a play's own`)
	a.global = scope == "global"
	if !a.global && scope != "local" {
		o.Fail("hash_id_scope is "+rows.Quote(scope), `it must be "local" or "global"`)
	}
	b.BlockTokens = o.Blocks("block_size")
	o.Note(errNoRow)
}

// setRecorded notes what was recorded of a row, and its bound. A bound that holds in any case is none.
func setRecorded(r *row, o object) {
	o.Need("not_before_ms", "write 0 for a request that only waits for its dependencies")
	r.NotBeforeNS = o.Span("not_before_ms", 6)
	readRecorded(r, o)
	always := r.NotBeforeNS == 0 // of a request that waits
	if len(r.Named) == 0 {
		always = r.Seen.Has(rows.TimestampField) && r.NotBeforeNS <= r.TimeNS
	}
	if always {
		r.NotBeforeNS = agents.None
	}
	r.Depth = int32(o.Count("depth", agents.MostDepth))
}

// readRecorded reads what appendRecorded writes.
func readRecorded(r *row, o object) {
	r.TookNS = o.Span("recorded_api_time_ms", 6)
	r.TTFTNS = o.Span("ttft_ms", 6)
	r.CachedTokens = int32(o.Count("cached_tokens", rows.MaxTokens))
}

// prepare makes the head. Its digest is of the rows.
func (a *agenticFile) prepare(s *Source) []byte {
	a.plays = nil
	a.names = uniqueNames{}
	scope := "local"
	if s.JobsShareBlocks {
		scope = "global"
	}
	digest := sha256.New()
	var line []byte
	for r := range s.Requests {
		line = a.append(line[:0], r)
		oneLine(line)
		digest.Write(append(line, '\n'))
	}
	return fmt.Appendf(nil,
		`{"schema":%q,"version":%d,"block_size":%d,"hash_id_scope":%q,"source":{"format":%q,"digest":"sha256:%x"}}`+
			"\n",
		agenticSchema, agenticVersion, s.BlockTokens, scope, s.Format, digest.Sum(nil))
}

// play is the name of a request's job, which no other job has.
func (a *agenticFile) play(r *Request) string {
	if r.JobNumber == len(a.plays) {
		asked := cmp.Or(r.JobName, rowName(r))
		a.plays = append(a.plays, a.names.pick(asked))
	}
	return a.plays[r.JobNumber]
}

// rowName is a name for what has none.
func rowName(r *Request) string { return "row-" + strconv.Itoa(r.Number) }

func (a *agenticFile) append(dst []byte, r *Request) []byte {
	play := a.play(r)
	session, named := r.conversation()
	switch {
	case named:
	case r.JobName == "":
		session = play
	default:
		session = rowName(r)
	}
	dst = appendInt(dst, `{"request_id":"r`, r.Index)
	dst = appendText(dst, `","play_id":`, play)
	dst = appendText(dst, `,"session_id":`, session)
	model := cmp.Or(r.Words.Model, "unknown")
	dst = appendText(dst, `,"model":`, model)
	dst = r.appendTimestamp(append(dst, ','))
	dst = r.appendPrompt(dst)
	if r.InputTokens > 0 && r.Verbatim.Kind != rows.NoVerbatim {
		dst = appendInt(dst, `,"input_length":`, r.InputTokens)
	}
	dst = r.appendAsked(dst)
	dst = appendMS(dst, `,"not_before_ms":`, r.notBeforeNS())
	dst = r.appendRecorded(dst)
	if r.InGraph {
		dst = appendInt(dst, `,"depth":`, r.Depth)
	}
	return append(r.appendIDs(r.appendWaits(dst)), '}')
}

// appendWaits appends what the request waits for.
func (r *Request) appendWaits(dst []byte) []byte {
	between := `,"dependencies":[`
	for _, d := range r.Waits {
		dst = append(dst, between...)
		dst = fmt.Appendf(dst, `{"request_id":"r%d","trigger":%q`, d.On, d.Trigger)
		dst = appendMS(dst, `,"delay_ms":`, max(0, d.DelayNS))
		dst = fmt.Appendf(dst, `,"relation":%q`, d.Relation)
		if d.DelayNS == agents.NoDelay {
			dst = append(dst, `,"recorded":false`...)
		}
		dst = append(dst, '}')
		between = ","
	}
	if len(r.Waits) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// notBeforeNS is when the request is sent at the earliest, beside what it waits for; 0 = at any time. A request that
// waits for nothing is sent when it was recorded.
func (r *Request) notBeforeNS() int64 {
	switch {
	case r.NotBeforeNS > 0:
		return r.NotBeforeNS
	case len(r.Waits) == 0:
		return r.TimeNS
	}
	return 0
}
