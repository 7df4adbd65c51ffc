package formats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Own is the name of the format that is written of logs: rows without text, and a head that says how they were made.
const Own = "fastreplay"

// ownSchema is the version of the format, which its head names.
const ownSchema = "fastreplay/trace/v1"

// Head is the first line of a file of fastreplay's own format: how its rows were made, and what was left out. The
// manual's page trace.md describes each key.
type Head struct {
	Schema           string         `json:"schema"`
	Mode             string         `json:"mode"`
	Hash             string         `json:"hash,omitempty"`
	KeyID            string         `json:"key_id,omitempty"`
	Scope            string         `json:"scope,omitempty"`
	BlockSize        int            `json:"block_size"`
	Chained          bool           `json:"chained"`
	Unit             string         `json:"unit"`
	Tokenizer        string         `json:"tokenizer,omitempty"`
	ChatTemplate     string         `json:"chat_template,omitempty"`
	Source           string         `json:"source"`
	Version          string         `json:"version,omitempty"`
	Times            string         `json:"times"`
	TimeUnit         string         `json:"time_unit"`
	TimeResolutionNS int64          `json:"time_resolution_ns,omitempty"`
	ClockMovedMS     float64        `json:"clock_moved_ms,omitempty"`
	RoundLengths     int            `json:"round_lengths"`
	JitterMS         float64        `json:"jitter_ms"`
	Dropped          []string       `json:"dropped"`
	Kept             []string       `json:"kept,omitempty"`
	Rows             int            `json:"rows"`
	Lost             map[string]int `json:"lost"`
	NotText          int            `json:"parts_not_text"`
	Sessions         string         `json:"sessions"`
}

// String says for people what the head says. What does not print is left out, since anybody may have written it.
func (h Head) String() string {
	ids := "ids are those of the source"
	if h.Mode == KeyedMode {
		ids = fmt.Sprintf("ids are keyed hashes (%s, key %s, scope %s)", h.Hash, h.KeyID, h.Scope)
	}
	text := fmt.Sprintf("made of %s by fastreplay %s: %s, lengths in units of %s (%s, %s), times %s, sessions of %s, "+
		"rows lost: %s, left out: %s", h.Source, h.Version, ids, h.Unit, cmp.Or(h.Tokenizer, "no tokenizer"),
		h.ChatTemplate, h.Times, h.Sessions, h.LostWords(), strings.Join(h.Dropped, ", "))
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

// LostWords says how many rows are lost, by reason.
func (h Head) LostWords() string {
	var words []string
	for _, why := range slices.Sorted(maps.Keys(h.Lost)) {
		if h.Lost[why] > 0 {
			words = append(words, fmt.Sprintf("%d %s", h.Lost[why], strings.ReplaceAll(why, "_", " ")))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

// The values of [Head].Mode and Scope.
const (
	KeyedMode  = "keyed" // ids are keyed hashes of recorded prompts
	TakenMode  = "as_in" // ids are those of the source
	FileScope  = "file"  // equal ids of two files mean nothing
	EpochScope = "epoch" // of one key they mean the same blocks
)

// own is fastreplay's own format, a head and then a line a request:
//
//	{"schema":"fastreplay/trace/v1","mode":"keyed","scope":"file","block_size":16,…}
//	{"timestamp":27482,"session_id":"9f…","input_length":40,"output_length":20,"hash_ids":[0,1,2],
//	 "output_hash_ids":[3],"recorded_api_time_ms":812.5,"ttft_ms":41.25,"cached_tokens":32}
//
// The rows are those of Mooncake with more fields. An id is that of a block with all before it. The manual's page
// trace.md describes them, and trace.schema.json beside it what they may be.
func own() *Format {
	f := &ownFile{}
	return &Format{
		Name: Own,
		Layout: rows.Layout{
			Names: rows.Usual(rows.TimestampField, rows.InputField, rows.OutputField, rows.HashIDsField,
				rows.SessionField, rows.DelayField, rows.ExtraField,
				rows.TenantField, rows.ModelField, rows.ClassField, rows.PriorityField),
			Required: rows.SetOf(rows.InputField, rows.OutputField),
		},
		BlockTokens: 16,
		Import: &Importer{
			Match:    anyOf(hasKeys("schema", "mode", "block_size"), hasKeys("output_hash_ids")),
			ReadText: f.read,
			End:      f.end,
		},
		Write: &Writer{
			Answers: true,
			Refuse: func(_, r *Request) string {
				if r.Verbatim.Kind != rows.NoVerbatim {
					return "has text"
				}
				return ""
			},
			Prepare: f.prepare,
			Append:  appendOwn,
		},
	}
}

// ownFile is what the reader knows of the file.
type ownFile struct {
	headOf *File // whose head was read
	head   Head
	rows   int // lines behind the head
	scopes agents.Scopes
}

func (f *ownFile) read(b *Batch, text []byte) {
	f.rows++
	o := rows.ObjectOf(text, &b.Fault)
	if !o.OK() {
		return
	}
	if o.Has("schema") {
		f.readHead(b, o)
		return
	}
	if f.headOf != b.File {
		o.Fail("no head before the first row", `the first line must be {"schema":"`+ownSchema+`",…}`)
		return
	}
	r := b.add()
	b.setNeeded(r, o, rows.InputField, rows.OutputField)
	b.setAll(r, o, rows.TimestampField, rows.HashIDsField, rows.SessionField, rows.DelayField, rows.ExtraField)
	b.setOwner(r, o, "")
	if value := o.Value("output_hash_ids"); value != nil && o.OK() {
		var answer row
		b.set(&answer, rows.HashIDsField, value)
		b.Fault = rows.Inside("output_hash_ids", b.Fault)
		r.AnswerIDs = answer.IDs
	}
	most := (int(r.InputTokens)+int(r.OutputTokens))/f.head.BlockSize - int(r.InputTokens)/f.head.BlockSize
	if len(r.AnswerIDs) > most {
		o.Fail(fmt.Sprintf("%d output_hash_ids, but %d blocks end in the answer", len(r.AnswerIDs), most),
			"an id stands for a whole block of the prompt and the answer")
	}
	r.Guessed = string(o.Value("recorded")) == "false"
	readRecorded(r, o)
	if f.head.Scope == FileScope && o.OK() {
		f.scopes.Renumber(b.File.Name, r.IDs)
		f.scopes.Renumber(b.File.Name, r.AnswerIDs)
	}
}

// readHead takes the first line.
func (f *ownFile) readHead(b *Batch, o object) {
	if f.headOf == b.File {
		o.Fail("a second head", "each file has one, in its first line: read the files by themselves")
		return
	}
	why := "only " + ownSchema + " can be read"
	if schema := o.Name("schema", why); schema != ownSchema {
		o.Fail("schema is "+rows.Quote(schema)+", not "+rows.Quote(ownSchema), why)
	}
	b.BlockTokens = o.Blocks("block_size")
	f.head = Head{}
	err := json.Unmarshal(o.Text, &f.head)
	if err != nil {
		o.Fail("the head: "+err.Error(), "see fastreplay help trace")
	}
	rows.OneOf[uint8](o, "mode", []string{KeyedMode, TakenMode})
	if f.head.Mode == KeyedMode || o.Has("scope") {
		rows.OneOf[uint8](o, "scope", []string{FileScope, EpochScope})
	}
	if !o.OK() {
		return
	}
	f.headOf = b.File
	f.rows = 0
	f.head.Dropped = append([]string{}, f.head.Dropped...)
	if f.head.Lost == nil {
		f.head.Lost = map[string]int{}
	}
	b.Head = &f.head
	o.Note(errNoRow)
}

// end refuses a file with fewer rows than its head says: a file may be cut between two lines.
func (f *ownFile) end(b *Batch) {
	if f.headOf == b.File && f.rows < f.head.Rows {
		b.note(rows.Bad(fmt.Sprintf("the head says %d rows, and %d are here: the file was cut", f.head.Rows, f.rows),
			"fetch the whole file, or write the number that is here into the head"))
		b.flush(1)
	}
}

// prepare makes the head.
func (f *ownFile) prepare(s *Source) []byte {
	head := s.Head
	head.BlockSize = s.BlockTokens
	head.Rows = 0
	head.Times = "none" // rows are in the order of the file
	for r := range s.Requests {
		head.Rows++
		if r.Seen.Has(rows.TimestampField) {
			head.Times = "as_logged" // of the source's clock, from its first request
			head.TimeResolutionNS = resolution(head.TimeResolutionNS, r.TimeNS)
		}
	}
	return append(head.Line(), '\n')
}

// Line is the head as it stands in a file, without the line's end.
func (h Head) Line() []byte {
	h.Schema = ownSchema
	line, err := json.Marshal(h)
	if err != nil {
		panic("BUG: the head has no JSON form: " + err.Error())
	}
	return line
}

// resolution is the largest of 1 s, 1 ms, 1 µs and 1 ns that divides an instant and the resolution before (0: none).
func resolution(so, instantNS int64) int64 {
	if so == 0 {
		so = 1_000_000_000
	}
	for instantNS%so != 0 {
		so /= 1000
	}
	return so
}

func appendOwn(dst []byte, r *Request) []byte {
	dst = r.appendTimes(append(dst, '{'))
	if r.Guessed {
		dst = append(dst, `"recorded":false,`...)
	}
	dst = appendInt(dst, `"input_length":`, r.InputTokens)
	dst = r.appendAsked(dst)
	r.Owner.Headers = "" // they may tell who asked, and with which key
	dst = r.appendOwner(dst)
	dst = r.appendRecorded(dst)
	dst = r.appendIDs(dst)
	return append(appendList(dst, `,"output_hash_ids":[`, r.AnswerIDs), '}')
}
