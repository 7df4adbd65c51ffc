package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// finish judges the whole file, sorts it, and makes the Trace of the selected rows.
func (l *loader) finish() (*Trace, error) {
	if l.layout != nil && l.layout.Has(rows.ChatField) {
		l.Session = l.resolveSessions()
	}
	if err := l.linkAgents(); err != nil {
		return nil, err
	}
	l.resolveDependencies()
	l.derive()
	l.settleTimes()
	if err := l.settleDependencies(); err != nil {
		return nil, err
	}
	if err := l.refuseFaults(); err != nil {
		return nil, err
	}
	var names []string
	for _, f := range l.files {
		names = append(names, f.name)
	}
	l.name = strings.Join(names, ", ")
	order := l.sorted()
	if err := l.refuseWhole(order); err != nil {
		if refusal, ok := err.(*LintError); ok && len(order) == 0 {
			refusal.Lint = &l.Lint
		}
		return nil, err
	}
	if l.format.WholeSeconds {
		l.Lint.SameSecond = l.sameInstant(order)
	}
	if l.Session != nil && l.Chat == nil {
		l.linkSessions(order)
	}
	l.dropLoneGuesses()
	l.growIDs(order)
	chosen, err := l.selected(order)
	if err != nil {
		return nil, err
	}
	l.countCutJobs(order, chosen)
	return l.assemble(chosen), nil
}

// dropLoneGuesses takes away guessed sessions of one request, which a recorder names before it knows of others.
func (l *loader) dropLoneGuesses() {
	if l.Session == nil {
		l.Guessed = nil
		return
	}
	turns := map[int64]int{}
	for i := range l.Guessed {
		turns[l.Session[i]]++
	}
	for i, guessed := range l.Guessed {
		if guessed && turns[l.Session[i]] == 1 {
			l.Session[i] = noSession(int(l.Row[i]))
			l.Guessed[i] = false
		}
	}
}

// countCutJobs counts the jobs of which only some requests are chosen.
func (l *loader) countCutJobs(all, chosen []int32) {
	if l.Job == nil || len(chosen) == len(all) {
		return
	}
	left := map[int32]int{}
	seen := map[int32]bool{}
	for _, row := range all {
		left[l.Job[row]]++
	}
	for _, row := range chosen {
		left[l.Job[row]]--
		seen[l.Job[row]] = true
	}
	delete(seen, agents.None) // rows without a job
	l.Lint.OfJobs = len(seen)
	for job := range seen {
		if left[job] > 0 {
			l.Lint.CutJobs++
		}
	}
}

// refuseFaults is the error for bad rows; with Options.Lenient or Options.Collect they are counted instead.
func (l *loader) refuseFaults() error {
	if l.faultRows == 0 {
		return nil
	}
	slices.SortStableFunc(l.faults,
		func(a, b Fault) int {
			return cmp.Or(l.fileNamed(a.File)-l.fileNamed(b.File), a.Line-b.Line)
		})
	if l.o.Lenient || l.o.Collect {
		l.Lint.Dropped = l.faultRows
		l.Lint.Faults = l.faults
		return nil
	}
	return &LintError{
		Faults: l.faults,
		More:   l.faultRows - len(l.faults),
		Good:   l.FileRows - l.faultRows,
	}
}

// refuseWhole judges the file as a whole.
func (l *loader) refuseWhole(order []int32) error {
	if len(order) == 0 {
		if l.Lint.Failed > 0 && l.Lint.Failed == l.FileRows {
			return refuse(l.name, fmt.Sprintf("each of the %d requests failed when it was recorded", l.FileRows),
				"a replay needs requests with response tokens")
		}
		if l.Lint.Unanswered > 0 && l.Lint.Unanswered == l.FileRows {
			return refuse(l.name, fmt.Sprintf("no question in the %d conversations has an answer", l.FileRows),
				"check that this is the right file and --format")
		}
		if l.Lint.Dropped > 0 {
			return refuse(l.name, fmt.Sprintf("none of the %d rows is usable, the first because: %s", l.FileRows,
				l.Lint.Faults[0]),
				"check that this is the right file and --format")
		}
		return refuse(l.name, "the trace is empty", "it must have at least one row")
	}
	if err := l.collect(l.refuseBlockSize()); err != nil {
		return err
	}
	first := l.ArrivalNS[order[0]]
	last := l.ArrivalNS[order[len(order)-1]]
	return l.collect(l.refuseUnit(last - first))
}

// sorted is the good rows in order of time; equal instants keep file order, but for what depends on others.
func (l *loader) sorted() []int32 {
	order := make([]int32, 0, len(l.ArrivalNS))
	last := int64(math.MinInt64)
	for i, at := range l.ArrivalNS {
		if l.unusable[int32(i)] {
			continue
		}
		if at < last {
			l.Lint.Unsorted++
			l.Lint.EarlierNS = max(l.Lint.EarlierNS, last-at)
		}
		last = at
		order = append(order, int32(i))
	}
	if l.order != nil {
		order = slices.DeleteFunc(slices.Clone(l.order), func(i int32) bool {
			return l.unusable[i]
		})
	}
	if l.Lint.Unsorted > 0 || l.order != nil {
		slices.SortStableFunc(order, func(a, b int32) int {
			return cmp.Compare(l.ArrivalNS[a], l.ArrivalNS[b])
		})
	}
	few := 20*l.Lint.Unsorted < len(order)
	if few && len(l.files) == 1 {
		first := l.ArrivalNS[order[0]]
		last := l.ArrivalNS[order[len(order)-1]]
		l.Lint.Anew = 2*l.Lint.EarlierNS > last-first
	}
	if l.format != nil && (l.format.Agents || l.format.Import != nil && l.format.Import.Documents) {
		l.Lint.Unsorted = 0 // a job's rows stand together, and each job has a clock of its own
	}
	return order
}

// sameInstant counts the rows at the same instant as another one.
func (l *loader) sameInstant(order []int32) int {
	n := 0
	at := lists.Pick(order, l.ArrivalNS)
	for i := range at {
		before := i > 0 && at[i-1] == at[i]
		behind := i+1 < len(at) && at[i+1] == at[i]
		if before || behind {
			n++
		}
	}
	return n
}

// selected applies From, To and Limit.
func (l *loader) selected(order []int32) ([]int32, error) {
	if l.timed == 0 && (l.o.From > 0 || l.o.To > 0) {
		return nil, refuse(l.name, "no row has a timestamp, so none can be selected by time",
			"leave --from and --to out, and select with --limit")
	}
	zero := l.ArrivalNS[order[0]]
	if l.o.FileTime {
		zero = 0
	}
	at := func(i int32) time.Duration {
		return time.Duration(l.ArrivalNS[i] - zero)
	}
	earliest := at(order[0])
	latest := at(order[len(order)-1])
	for len(order) > 0 && at(order[0]) < l.o.From {
		order = order[1:]
	}
	for l.o.To != 0 && len(order) > 0 && at(order[len(order)-1]) >= l.o.To {
		order = order[:len(order)-1]
	}
	if len(order) == 0 {
		where := fmt.Sprintf("at or after %v", l.o.From)
		if l.o.To != 0 {
			where = fmt.Sprintf("between %v and %v", l.o.From, l.o.To)
		}
		return nil, refuse(l.name, "no row lies "+where, fmt.Sprintf("the trace goes from %v to %v", earliest, latest))
	}
	if l.o.Limit > 0 && l.o.Limit < len(order) {
		order = order[:l.o.Limit]
	}
	return order, nil
}

// assemble gathers the columns in order.
func (l *loader) assemble(order []int32) *Trace {
	l.Name = l.name
	l.Format = l.format.Name
	l.Untimed = l.timed == 0
	l.Types = l.types.names
	l.Owners = l.owners.names
	l.RecordedModels = l.Lint.ModelKey != ""
	l.Jobs = l.jobs.names
	t := l.chosen(order)
	first := t.ArrivalNS[0]
	for i := range t.ArrivalNS {
		t.ArrivalNS[i] -= first
		if t.NotBeforeNS != nil && t.NotBeforeNS[i] >= 0 {
			t.NotBeforeNS[i] = max(0, t.NotBeforeNS[i]-first)
		}
	}
	t.ids = l.ids.Choose(order, func(row int32) int {
		return l.format.MostIDs(l.InputTokens[row], l.BlockTokens)
	})
	return t
}
