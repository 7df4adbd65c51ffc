package trace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// maxFaults is how many faults are kept and shown; the rest is counted.
const maxFaults = 10

// Fault is one thing wrong with a trace.
type Fault struct {
	File string
	Line int    // from 1; 0 = the file as a whole
	What string // what is wrong
	Fix  string // what to do about it; may be empty
}

// String is "file:line: what; what to do".
func (f Fault) String() string {
	text := f.File
	if f.Line > 0 {
		text = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	text += ": " + f.What
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	return text
}

// LintError is the refusal of a trace, with the reasons.
type LintError struct {
	Faults []Fault // the first ten
	More   int     // faults beyond them
	Good   int     // rows without a fault; 0 where the file as a whole is refused
	Lint   *Lint   // what was counted of a file that has no good row; nil for others
}

// Error has a line for each fault, and one on how to go on without the bad rows.
func (e *LintError) Error() string {
	lines := make([]string, 0, len(e.Faults)+1)
	for _, f := range e.Faults {
		lines = append(lines, f.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", e.More))
	}
	if e.Good > 0 {
		bad := len(e.Faults) + e.More
		lines = append(lines, fmt.Sprintf("%d of %d rows cannot be replayed; fix them, or leave them out with "+
			"--bad-rows drop",
			bad, bad+e.Good))
	}
	return strings.Join(lines, "\n")
}

// faultOf turns a line's error into a fault.
func faultOf(file string, line int, err error) Fault {
	return Fault{
		File: file,
		Line: line,
		What: err.Error(),
		Fix:  rows.FixOf(err),
	}
}

// faultList is the rows that cannot be replayed.
type faultList struct {
	faults    []Fault // the first of them
	faultRows int
	unusable  map[int32]bool // rows that were kept before their fault was found
}

func (l *faultList) fault(f Fault) {
	l.faultRows++
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, f)
	}
}

// refuse is the error for a fault of the file as a whole.
func refuse(file, what, fix string) error {
	return &LintError{Faults: []Fault{{File: file, What: what, Fix: fix}}}
}

// collect keeps a refusal for whoever only looks at the trace (Options.Collect); otherwise it stays the error.
func (l *loader) collect(err error) error {
	var refusal *LintError
	if !l.o.Collect || !errors.As(err, &refusal) {
		return err
	}
	l.Lint.Refusals = append(l.Lint.Refusals, refusal.Faults...)
	return nil
}

// Lint counts what was wrong with a trace that was taken nevertheless. It is about the whole file, but where it says
// selection.
type Lint struct {
	Repaired  int      // rows that were repaired
	Dropped   int      // rows that were dropped (Options.Lenient, Options.Collect)
	Faults    []Fault  // the first ten of the dropped rows
	Refusals  []Fault  // why the file as a whole would be refused; only with Options.Collect
	UnitDoubt string   // why the time unit, which nobody gave, may be another one; "" = it is plausible
	Basis     string   // why the basis of sub-agents' times may be the other one; "" = it is plausible
	CutJobs   int      // of the selection: jobs of which it has some requests and not all
	OfJobs    int      // of the selection: jobs in it
	Found     []string // places in a named directory of the files that were read
	ModelKey  string   // the format's own, under which rows name models that --fields does not name; "" = none
	Unsent    []string // keys of bodies beside a prompt verbatim, which the format skips, in the first rows of a file

	MissingIDs int   // repaired: fewer hash ids than blocks; the rest of the prompt is unique to the row
	SurplusIDs int   // repaired: more hash ids than blocks; the surplus is ignored
	Failed     int   // left out: requests that failed when they were recorded
	Unanswered int   // left out: conversations in which nothing that was asked has an answer
	Delayed    int   // rows without a timestamp, planned their delay after the turn before
	SameSecond int   // rows at the same instant as another, where timestamps are whole seconds
	NoOutput   int   // repaired: output_length 0, taken as 1
	Unsorted   int   // rows earlier than the row before them; the trace was sorted
	EarlierNS  int64 // by how much the earliest of these is earlier
	Anew       bool  // that is most of the trace's span: its times began anew
	SameChat   int   // rows whose chat id an earlier row has already; parents mean the earlier one
}

// Refused reports whether a replay with the same options but for Collect would refuse the trace.
func (l *Lint) Refused(o Options) bool {
	return len(l.Refusals) > 0 || l.Dropped > 0 && !o.Lenient
}

// Notes has a line for people on each thing that was repaired, dropped or sorted; nothing for a clean trace.
func (l *Lint) Notes() []string {
	var notes []string
	add := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, n, plural(n)))
		}
	}
	if len(l.Found) > 0 {
		notes = append(notes, fmt.Sprintf("%d file%s found in the directory: %s", len(l.Found), plural(len(l.Found)),
			shown(l.Found)))
	}
	for _, doubt := range []string{l.UnitDoubt, l.Basis} {
		if doubt != "" {
			notes = append(notes, doubt)
		}
	}
	if l.CutJobs > 0 {
		const why = "%d of %d jobs cut: --limit, --from and --to select requests, so the times of these jobs are " +
			"not the recorded ones; --amplify 0.1 alone takes a tenth of the jobs, each whole"
		notes = append(notes, fmt.Sprintf(why, l.CutJobs, l.OfJobs))
	}
	add(l.MissingIDs, "%d row%s repaired: fewer hash ids than blocks, the missing blocks are unique to the row")
	add(l.SurplusIDs, "%d row%s repaired: more hash ids than blocks, the surplus is ignored")
	add(l.NoOutput, "%d row%s repaired: output_length 0, replayed as 1")
	if len(l.Unsent) > 0 {
		notes = append(notes, fmt.Sprintf("%s of the rows: not sent, since the format has no such key; put them "+
			"into extra, or give --format raw_payload if the rows are bodies", strings.Join(l.Unsent, ", ")))
	}
	add(l.Failed, "%d row%s left out: requests that failed when they were recorded")
	add(l.Unanswered, "%d conversation%s left out: no question in them has an answer")
	add(l.Delayed, "%d row%s without a timestamp, planned the recorded delay after the turn before")
	add(l.SameSecond, "%d row%s at the same instant as another: timestamps are whole seconds, and what came in "+
		"one of them is sent at once")
	anew := ""
	if l.Anew {
		anew = "; if recordings stand one behind another, they are now sent at the same time"
	}
	add(l.Unsorted, "%d row%s out of time order, by up to "+time.Duration(l.EarlierNS).String()+
		": the trace was sorted, equal instants keep file order"+anew)
	add(l.SameChat, "%d row%s repeating a chat_id: parents refer to its first row")
	add(l.Dropped, "%d bad row%s dropped")
	for _, f := range l.Faults {
		notes = append(notes, "dropped "+f.String())
	}
	more := l.Dropped - len(l.Faults)
	if more > 0 {
		notes = append(notes, fmt.Sprintf("… and %d more", more))
	}
	return notes
}

// ModelsNote says that no request asks for the models of the trace. It is "" if one may, or if the trace has one model
// alone, which tells nothing apart.
func (t *Trace) ModelsNote() string {
	named := map[string]bool{}
	for _, owner := range t.Owners {
		named[owner.Model] = true
	}
	delete(named, "")
	if !t.RecordedModels || len(named) < 2 {
		return ""
	}
	return fmt.Sprintf("rows name models (%s): results tell them apart, and requests ask for them only if all servers "+
		"list them, or by --fields model=%s", shown(slices.Sorted(maps.Keys(named))), t.Lint.ModelKey)
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Thresholds of the linter's judgement on a whole file. They refuse a replay that would be wrong by the factor of 1,000
// between seconds and milliseconds. They accept what a real server has seen. An explicit Options.TimeUnit, or a format
// with one unit only, turns those about time off. An explicit Options.BlockTokens turns none off: the ids are checked
// against it.
const (
	// maxSpan is longer than the public traces whose unit may be mistaken.
	maxSpan = 31 * 24 * time.Hour
	// maxMeanGap is the mean time between requests from which a trace of slowRows rows or more is refused. Mooncake's
	// conversation trace has 0.29 s; its milliseconds taken for seconds would make 294 s.
	maxMeanGap = time.Minute
	slowRows   = 20
	// maxTokenRate is the mean input tokens a second above which a trace of fastRows rows or more is refused. The
	// conversation trace, the work of a whole cluster, has 41 thousand; its seconds taken for milliseconds would make
	// 41 million.
	maxTokenRate = 10_000_000
	fastRows     = 100
	// The unit is doubted in a note where another one is as likely, from doubtRows rows on. It is doubted above
	// doubtRate requests or doubtTokenRate input tokens a second. In seconds these are a request in 10 s or 200 tokens
	// a second. A unit of seconds is doubted if it makes one request in doubtGap, which in milliseconds are 100 a
	// second. So is one that makes of fewer than slowRows rows one in maxMeanGap.
	doubtRows      = 5
	doubtRate      = 100
	doubtTokenRate = 200_000
	doubtGap       = 10 * time.Second
	// maxMismatchPercent is the share of rows with hash ids of which the number of ids may not fit the length. More
	// means that the block size is wrong, not the rows.
	maxMismatchPercent = 5
	// maxBlockShift bounds the block sizes that are tried out for the message: 1 to 65,536 tokens.
	maxBlockShift = 16
)

// refuseUnit is the error for a span in ns that another time unit must have made. One that another unit may have made
// is noted.
func (l *loader) refuseUnit(spanNS int64) error {
	if l.timed == 0 || l.o.TimeUnit != 0 || !l.format.UnitVaries || spanNS == 0 {
		return nil
	}
	rows := len(l.ArrivalNS) - len(l.unusable)
	var tokens float64
	for _, n := range l.InputTokens {
		tokens += float64(n)
	}
	span := time.Duration(spanNS)
	gap := span / time.Duration(max(rows-1, 1))
	rate := tokens / span.Seconds()
	perS := float64(rows-1) / span.Seconds()
	switch {
	case span > maxSpan || rows >= slowRows && gap > maxMeanGap:
		return l.refuseSpan(fmt.Sprintf("%d rows over %v, one every %v on average", rows, span, gap),
			max(l.TimeUnit/1000, time.Nanosecond))
	case rows >= fastRows && rate > maxTokenRate:
		return l.refuseSpan(fmt.Sprintf("%d rows within %v, %.0f input tokens a second", rows, span, rate),
			min(l.TimeUnit*1000, time.Second))
	case rows < doubtRows:
	case l.TimeUnit < time.Second && (perS > doubtRate || rate > doubtTokenRate):
		l.Lint.UnitDoubt = fmt.Sprintf("%d rows within %v, %.0f requests and %.0f input tokens a second: if the "+
			"timestamps are seconds, give --time-unit s", rows, span, perS, rate)
	case l.TimeUnit == time.Second && (gap > maxMeanGap || rows >= slowRows && gap > doubtGap):
		l.Lint.UnitDoubt = fmt.Sprintf("%d rows over %v, one in %v: if the timestamps are milliseconds, give "+
			"--time-unit ms", rows, span, gap)
	}
	return nil
}

// refuseSpan proposes another unit: the one that the format's is most often mistaken for.
func (l *loader) refuseSpan(what string, other time.Duration) error {
	return refuse(l.name, what+": the time unit ("+UnitName(l.TimeUnit)+") is probably wrong",
		fmt.Sprintf("pass --time-unit %s if that is what the timestamps are, or --time-unit %s to replay them as "+
			"they stand", UnitName(other), UnitName(l.TimeUnit)))
}

// refuseBlockSize is the error for too many rows whose number of ids does not fit their length.
func (l *loader) refuseBlockSize() error {
	bad := l.Lint.MissingIDs + l.Lint.SurplusIDs
	if bad*100 <= l.withIDs*maxMismatchPercent {
		return nil
	}
	_, first := l.mismatches(l.BlockTokens)
	what := fmt.Sprintf("%d of %d rows have a number of hash ids that is not input_length / %d rounded %s, first "+
		"%s (%d ids for %d tokens)",
		bad, l.withIDs, l.BlockTokens, l.format.Rounding(), l.place(first), l.ids.Size(first), l.InputTokens[first])
	for shift := range maxBlockShift + 1 {
		size := 1 << shift
		if bad, _ := l.mismatches(size); bad*100 <= l.withIDs*maxMismatchPercent {
			return refuse(l.name, what, fmt.Sprintf("the ids fit blocks of %d tokens: pass --block-tokens %d", size,
				size))
		}
	}
	return refuse(l.name, what, "pass the block size of the trace with --block-tokens")
}

// mismatches is how many rows have ids whose number does not fit blocks of so many tokens, and the first of them.
func (l *loader) mismatches(blockTokens int) (n, first int) {
	for i := l.ids.Len() - 1; i >= 0; i-- {
		if !l.format.IDsFit(l.ids.Size(i), l.InputTokens[i], blockTokens) {
			n++
			first = i
		}
	}
	return n, first
}
