package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// With is the trace with words to be written.
func (t *Trace) With(w Words) *Trace {
	out := *t
	out.words = w
	return &out
}

// Write writes the trace in a format of [Written], in order of arrival, with timestamps exact to the ns. What the
// format has no place for is left out: see [WriteNotes]. A trace that lacks what the format requires, or has what the
// format cannot express, is an error, and nothing is written. Formats of text need words for rows that only have
// numbers of tokens: see [Trace.With].
//
// Block ids are written unchanged. A block without one after others gets one of its own where the format wants it. If
// t.BlockTokens is not the format's own, the file must be read with Options.BlockTokens.
func Write(w io.Writer, t *Trace, format string) error {
	f, err := formats.ToWrite(format)
	if err == nil {
		t = t.regroupedFor(f)
		err = t.checkWritable(f)
	}
	if err != nil {
		return err
	}
	if f.Has(rows.HashIDsField) && f.LastBlock == formats.HasID && t.lacksIDs() {
		named := *t
		named.ids, err = t.named(false)
		if err != nil {
			return err
		}
		t = &named
	}
	out := bufio.NewWriterSize(w, 64<<10)
	requests := t.requests(f.Write.Graph)
	line := []byte(f.Write.Head)
	if f.Write.Prepare != nil {
		line = f.Write.Prepare(&formats.Source{
			Format:          t.Format,
			BlockTokens:     t.BlockTokens,
			JobsShareBlocks: t.jobsShareBlocks(),
			Head:            t.Head(),
			Requests:        requests.all,
		})
	}
	if _, err := out.Write(line); err != nil {
		return fmt.Errorf("writing the head of the trace: %w", err)
	}
	for i := range t.Len() {
		line = f.AppendLine(line[:0], requests.at(i))
		if i < t.Len()-1 && f.Write.Tail != "" {
			line = append(line, ',')
		}
		line = append(line, '\n')
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("writing row %d of the trace: %w", i, err)
		}
	}
	_, _ = out.WriteString(f.Write.Tail) // an error stays until the flush
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the trace: %w", err)
	}
	return nil
}

// WriteFile writes the trace to a new file, packed if its name ends in .zst. If it fails, it leaves nothing behind.
func WriteFile(path string, t *Trace, format string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = errors.Join(writePacked(f, t, format), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path)) // it is ours, and of no use
	}
	return nil
}

func writePacked(f *os.File, t *Trace, format string) error {
	if filepath.Ext(f.Name()) != ".zst" {
		return Write(f, t, format)
	}
	packer, err := zstd.NewWriter(f)
	if err != nil {
		return err
	}
	return errors.Join(Write(packer, t, format), packer.Close())
}

// requests are those of a trace, as a writer takes them.
type requests struct {
	t     *Trace
	graph *Graph // nil = not wanted
	job   []int32
	r     formats.Request
}

// requests returns those of the trace, with jobs and dependencies if they are wanted.
func (t *Trace) requests(graph bool) *requests {
	q := &requests{t: t}
	if graph {
		q.graph = t.Graph(t.Len())
		q.job, _ = t.JobNumbers()
	}
	return q
}

// all calls yield with each request.
func (q *requests) all(yield func(*formats.Request) bool) {
	for i := range q.t.Len() {
		if !yield(q.at(i)) {
			return
		}
	}
}

// at returns request i, valid until the next call.
func (q *requests) at(i int) *formats.Request {
	t := q.t
	r := &q.r
	*r = formats.Request{
		Row:     rows.NewRow(),
		Index:   i,
		Number:  int(t.Row[i]),
		Words:   &t.words,
		InGraph: t.HasDependencies(),
	}
	r.TimeNS = t.ArrivalNS[i]
	r.InputTokens = t.InputTokens[i]
	r.OutputTokens = t.OutputTokens[i]
	r.IDs = t.Blocks(i)
	r.AnswerIDs = t.AnswerBlocks(i)
	r.Guessed = t.Guessed != nil && t.Guessed[i]
	r.Verbatim = t.Verbatim(i)
	r.Answer = t.Answer(i)
	r.Endpoint = t.Endpoint
	if !t.Untimed {
		r.Seen |= rows.SetOf(rows.TimestampField)
	}
	if t.Session != nil && t.Session[i] >= 0 {
		r.Session = t.Session[i]
		name := t.SessionName(i)
		if name != "" {
			r.SessionName = []byte(name)
		}
		r.Seen |= rows.SetOf(rows.SessionField)
	}
	if t.Chat != nil {
		r.Chat = t.Chat[i]
		r.Parent = t.Parent[i]
		r.Seen |= rows.SetOf(rows.ChatField)
	}
	if t.Turn != nil {
		r.Turn = t.Turn[i]
	}
	r.DelayNS = valueAt(t.DelayNS, i)
	if r.DelayNS >= 0 {
		r.Seen |= rows.SetOf(rows.DelayField)
	}
	r.Owner = t.OwnerOf(i)
	r.Owner.Model = t.AskedModel(i) // a replay of what is written is to ask for the same
	if t.Type != nil {
		r.Type = []byte(t.Types[t.Type[i]])
	}
	r.NotBeforeNS = valueAt(t.NotBeforeNS, i)
	r.TookNS = valueAt(t.TookNS, i)
	r.TTFTNS = valueAt(t.TTFTNS, i)
	r.CachedTokens = valueAt(t.Cached, i)
	r.Depth = max(0, valueAt(t.Depth, i))
	if q.graph != nil {
		r.JobNumber = int(q.job[i])
		r.JobName = t.JobName(i)
		r.Waits = q.graph.Of(i)
	}
	return r
}

// valueAt is the value of a request in a column, agents.None where there is no column.
func valueAt[T int32 | int64](column []T, i int) T {
	if column == nil {
		return agents.None
	}
	return column[i]
}

// lacksIDs reports whether some row has ids, but not of all its blocks.
func (t *Trace) lacksIDs() bool {
	for i := range t.Len() {
		n := len(t.Blocks(i))
		if n > 0 && n < blocksOf(t.InputTokens[i], t.BlockTokens) {
			return true
		}
	}
	return false
}

// blocksOf is how many blocks a prompt has, the last one perhaps partial.
func blocksOf(tokens int32, blockTokens int) int {
	return (int(tokens) + blockTokens - 1) / blockTokens
}

// jobsShareBlocks reports whether some jobs have blocks in common.
func (t *Trace) jobsShareBlocks() bool {
	job, n := t.JobNumbers()
	owner := map[uint64]int32{}
	before := make([][]uint64, n) // ids of the row before in a job, which are known
	for i, j := range job {
		ids := t.Blocks(i)
		from := agents.CommonPrefix(ids, before[j])
		before[j] = ids
		for _, id := range ids[from:] {
			of, known := owner[id]
			if known && of != j {
				return true
			}
			owner[id] = j
		}
	}
	return false
}

// checkWritable refuses a trace that lacks what every row of the format needs.
func (t *Trace) checkWritable(f *formats.Format) error {
	if t.Untimed && f.Required.Has(rows.TimestampField) {
		return fmt.Errorf("no row of %s has a timestamp, which %s needs: write it as %s", t.Name, f.Name,
			formats.Default)
	}
	if f.Words && t.words.Prompt == nil && t.made() > 0 {
		return fmt.Errorf("%s has numbers of tokens, and no words were given for %s", t.Name, f.Name)
	}
	counts := f.Required.Has(rows.OutputField)
	first := *t.requests(false).at(0)
	all := t.requests(false)
	for i := range t.Len() {
		if counts && (t.InputTokens[i] == 0 || t.OutputTokens[i] == 0) {
			return fmt.Errorf("row %d of %s has no numbers of tokens, which %s needs: write it as %s", t.Row[i], t.Name,
				f.Name, formats.Default)
		}
		if f.Write.Refuse == nil {
			continue
		}
		what := f.Write.Refuse(&first, all.at(i))
		if what != "" {
			return fmt.Errorf("row %d of %s %s, which %s has no place for: write it as %s", t.Row[i], t.Name, what,
				f.Name,
				formats.Default)
		}
	}
	return nil
}

// WriteNotes returns a line for people on each thing that a file in a format will lack.
func WriteNotes(t *Trace, format string) ([]string, error) {
	f, err := formats.ToWrite(format)
	if err != nil {
		return nil, err
	}
	answers := t.answerIDs != nil
	t = t.regroupedFor(f)
	var notes []string
	lose := func(has bool, what string) {
		if has {
			notes = append(notes, fmt.Sprintf("%s has no place for %s: they are left out", f.Name, what))
		}
	}
	ids := t.BlockRefs() > 0
	graph := f.Write.Graph
	lose(ids && !f.HasBlocks(), "block ids")
	lose(!t.Untimed && !f.Has(rows.TimestampField), "timestamps")
	lose(f.WholeSeconds && t.fractions(), "fractions of seconds")
	lose(t.Session != nil && !f.Conversations(), "conversations")
	lose(t.Type != nil && !f.Has(rows.TypeField), "types")
	lose(t.Owner != nil && !f.Has(rows.TenantField), "tenants, models, classes and priorities")
	lose(t.hasHeaders() && !f.Has(rows.HeadersField), "headers")
	lose(t.verbatims != nil && !f.Words && !f.Has(rows.TextField), "verbatim prompts")
	lose(f.Words && !f.Bodies() && !f.Has(rows.ExtraField) &&
		t.any(func(v Verbatim, _ int32) bool {
			return v.Extra != nil
		}), "extra members of bodies")
	lose(f.Bodies() && !f.Has(rows.OutputField) &&
		t.any(func(v Verbatim, output int32) bool {
			return v.Kind == VerbatimPayload && output > 0
		}),
		"lengths of answers beside bodies")
	lose(t.DelayNS != nil && !f.Has(rows.DelayField), "delays")
	lose(t.HasDependencies() && !graph, "dependencies between requests")
	lose(t.Job != nil && !graph, "jobs")
	recorded := t.TookNS != nil || t.TTFTNS != nil || t.Cached != nil
	lose(recorded && !graph && !f.Write.Answers, "recorded durations and cache hits")
	lose(answers && !f.Write.Answers, "ids of answers")
	lose(len(t.Heads) > 1, "the heads of several files")
	if graph && ids && t.jobsShareBlocks() {
		notes = append(notes, "jobs have blocks in common: hash_id_scope is global, which fastreplay reads and "+
			"Dynamo refuses")
	}
	n := t.made()
	if f.Words && n > 0 {
		notes = append(notes, fmt.Sprintf("%s has verbatim prompts: those known only by their length (%d) are made of "+
			"words, which most tokenizers count as one token each", f.Name, n))
	}
	if ids && f.Has(rows.HashIDsField) && t.BlockTokens != f.BlockTokens && !graph {
		notes = append(notes, fmt.Sprintf("the block ids stand for %d tokens, where %s has %d: read the file "+
			"with --block-tokens %d",
			t.BlockTokens, f.Name, f.BlockTokens, t.BlockTokens))
	}
	return notes, nil
}

// made is how many prompts the trace only has the number of tokens of.
func (t *Trace) made() int {
	return t.Len() - t.Verbatims()
}

// any reports whether some row is such by its verbatim content and its output tokens.
func (t *Trace) any(such func(v Verbatim, output int32) bool) bool {
	for i, output := range t.OutputTokens {
		if such(t.Verbatim(i), output) {
			return true
		}
	}
	return false
}

// fractions reports whether some row comes between two whole seconds.
func (t *Trace) fractions() bool {
	return slices.ContainsFunc(t.ArrivalNS, func(at int64) bool {
		return at%int64(time.Second) != 0
	})
}
