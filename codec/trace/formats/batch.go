package formats

import (
	"bytes"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/chatml"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// File is a file that is imported.
type File struct {
	Name     string
	Within   string // its place in the directory where it was found; "" = it was named itself
	Detected bool   // nobody has said of which format it is
}

// Batch collects the rows of an object: all or none of them are taken.
type Batch struct {
	File        *File
	Line        int // of the object
	First       int // number of the first row among those of all files
	Rows        []row
	Failed      int     // requests that are left out, since they failed when they were recorded
	BlockTokens int     // that an id stands for, where the object says it; 0 = as before
	Nested      *Nested // agents of the rows, where the file nests them; nil = it does not
	Head        *Head   // that the object is, which says how the rows were made; nil = it is none
	ModelKey    string  // the format's own, under which the object names models and --fields none; "" = there are none
	Fault       error
	History     *chatml.History // of conversations, what requests before this one said

	reader   *rows.Reader
	take     func(b *Batch)
	response object // that answers the latest request; the zero value = it is of another API
}

// NewBatch returns an empty batch of a file, whose fields the reader decodes. Take is called for those that
// [Importer.End] makes, with First already set for the next one when it returns.
func NewBatch(file *File, reader *rows.Reader, take func(b *Batch)) *Batch {
	return &Batch{File: file, reader: reader, take: take}
}

// errNoRow is an object that is no row, but says something of others.
var errNoRow = rows.Bad("no row", "")

// NoRow reports whether the object is not a row but says something of others, such as the head of a file.
func (b *Batch) NoRow() bool { return b.Fault == errNoRow }

// flush hands over what is there.
func (b *Batch) flush(line int) {
	b.Line = line
	b.take(b)
	first := b.First
	history := b.History
	*b = *NewBatch(b.File, b.reader, b.take)
	b.First = first
	b.History = history
}

// name is what a field is called in the file.
func (b *Batch) name(f rows.Field) string {
	return b.reader.Layout().Names[f]
}

// add makes room for a row. The pointer is valid until the next call.
func (b *Batch) add() *row {
	b.Rows = append(b.Rows, rows.NewRow())
	return &b.Rows[len(b.Rows)-1]
}

// note keeps the first error of the object; nil is none.
func (b *Batch) note(err error) {
	object{Fault: &b.Fault}.Note(err)
}

// set notes a field of a row, as it stands in a plain one. The format's names are for messages.
func (b *Batch) set(r *row, f rows.Field, value []byte) {
	b.note(b.reader.Set(r, f, value))
}

// setAll notes the fields of a row that an object has.
func (b *Batch) setAll(r *row, o object, fields ...rows.Field) {
	for _, f := range fields {
		name := b.name(f)
		value := o.Value(name)
		if name != "" && value != nil && o.OK() {
			b.set(r, f, value)
		}
	}
}

// setOwner is setAll for whose a row is, which most formats tell only where --fields names it. A model stands under a
// key of the format's own, too.
func (b *Batch) setOwner(r *row, o object, modelKey string) {
	b.setAll(r, o, rows.TenantField, rows.ModelField, rows.ClassField, rows.PriorityField)
	if model := o.Value(modelKey); b.name(rows.ModelField) == "" && len(model) > 0 && model[0] == '"' && o.OK() {
		b.ModelKey = modelKey
		b.set(r, rows.ModelField, model)
	}
}

// setNeeded is setAll for fields without which a row cannot be replayed.
func (b *Batch) setNeeded(r *row, o object, fields ...rows.Field) {
	for _, f := range fields {
		o.Need(b.name(f), "every request must have what the format requires")
	}
	b.setAll(r, o, fields...)
}

// setConversation notes that a row is a turn of the object's conversation. One without a name gets one by its place.
func (b *Batch) setConversation(r *row, o object) {
	b.setAll(r, o, rows.SessionField)
	if !r.Seen.Has(rows.SessionField) {
		r.SetSession([]byte("conversation-" + strconv.Itoa(b.First)))
	}
}

// setMessages notes what a row asks. The messages of an object's rows grow: each row's begin with those of the row
// before.
func (b *Batch) setMessages(r *row, content []byte) {
	r.Verbatim.Kind = rows.VerbatimMessages
	r.Verbatim.Content = content[:len(content):len(content)]
	r.Longer = len(b.Rows) > 1
}

// setBody notes the whole body of a request: one JSON object, with space around it at most.
func (b *Batch) setBody(r *row, text []byte) {
	b.body(text)
	if b.Fault == nil {
		b.setWhole(r, text)
	}
}

// body takes a body apart.
func (b *Batch) body(text []byte) object {
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) > 0 && trimmed[0] != '{' {
		b.note(rows.Bad(b.name(rows.PayloadField)+" is "+rows.Clip(trimmed)+", not an object",
			"only JSON objects can be sent"))
		return object{Fault: &b.Fault}
	}
	return rows.ObjectOf(text, &b.Fault)
}

// setWhole notes a body that could be taken apart.
func (b *Batch) setWhole(r *row, text []byte) {
	r.Seen |= rows.SetOf(rows.PayloadField)
	from := bytes.IndexByte(text, '{')
	to := bytes.LastIndexByte(text, '}') + 1
	b.note(r.SetVerbatim(rows.PayloadField, b.name(rows.PayloadField), text[from:to]))
}

// setCounts notes the numbers of tokens of a request of which no more is known. They are of its prompt and its answer,
// and of what the server had cached of the prompt. The last key need not be there. Head is that of [agents.Growth].
func (b *Batch) setCounts(r *row, o object, cachedKey, head string) {
	b.setNeeded(r, o, rows.InputField, rows.OutputField)
	cached := int32(o.Count(cachedKey, rows.MaxTokens))
	r.CachedTokens = min(cached, r.InputTokens)
	r.Growth = agents.GrowByLength(head)
}
