// Package merge makes one run of the results of shards, as one machine would have written them.
//
// It owns which directories belong together, what of a request is known that a lost shard was to send, the order of the records, the
// correction of clocks, and how facts of several clients add up. Numbers of requests are computed from all records by package metrics.
// Memory does not grow with the records, but for 1 bit each; see metrics.Collector.Spill.
package merge

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/shard"
)

// source is what is left of one shard.
type source struct {
	index   int
	dir     string // "" = nothing
	file    shard.File
	plan    *report.Plan
	summary *metrics.Summary // nil if the shard ended before its run did
	planned string           // file of the records that it was to have; "" = nobody has them
	has     bitmap           // numbers of the requests that have a record, of a shard that ended early
}

// Shards are the results of the shards of one run.
type Shards struct {
	all   []source     // by index, missing ones too
	first *source      // the first that has a directory
	like  *shard.File  // of it
	plan  *report.Plan // of it
	lost  []*source    // missing, or ended early
}

// Open reads what the directories of shards say of themselves; a directory of such directories stands for them. It returns an error if
// they are not of one run. Missing shards are none.
func Open(dirs []string) (*Shards, error) {
	dirs, err := unfold(dirs)
	if err != nil {
		return nil, err
	}
	s := new(Shards)
	for _, dir := range dirs {
		if err := s.open(dir); err != nil {
			return nil, err
		}
	}
	for i := range s.all {
		if k := &s.all[i]; k.dir == "" || k.summary == nil {
			s.lost = append(s.lost, k)
		}
	}
	return s, s.findPlanned()
}

// unfold puts in place of a directory that is no shard the shards in it.
func unfold(dirs []string) (out []string, err error) {
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, shard.FileName)); err == nil {
			out = append(out, dir)
			continue
		}
		found, err := filepath.Glob(filepath.Join(dir, "*", shard.FileName))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s is no directory of a shard: it has no %s; give the directories that --shard runs wrote", dir, shard.FileName)
		}
		for _, name := range found {
			out = append(out, filepath.Dir(name))
		}
	}
	return out, nil
}

func (s *Shards) open(dir string) error {
	k := source{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, shard.FileName))
	if err = cmp.Or(err, json.Unmarshal(text, &k.file)); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, shard.FileName), err)
	}
	f := &k.file
	if k.index = f.Index; f.Schema != shard.Schema || f.Index < 0 || f.Index >= f.Count {
		return fmt.Errorf("%s: shard %d of %d, schema %d: this version reads schema %d", filepath.Join(dir, shard.FileName), f.Index, f.Count, f.Schema, shard.Schema)
	}
	if k.plan, err = report.ReadPlan(dir); err != nil || k.plan == nil {
		return cmp.Or(err, fmt.Errorf("%s has no %s", dir, report.PlanName))
	}
	if _, err := os.Stat(filepath.Join(dir, report.SummaryName)); err == nil {
		if k.summary, err = report.Load(dir); err != nil {
			return err
		}
	}
	if s.all == nil {
		s.all = make([]source, f.Count)
		for i := range s.all {
			s.all[i].index = i
		}
	}
	if like := s.like; like != nil {
		for _, differs := range []struct{ what, here, there string }{
			{"version of fastreplay", f.Version, like.Version}, {"number of shards", strconv.Itoa(f.Count), strconv.Itoa(like.Count)}, {"load (trace, flags or servers)", short(f.Load), short(like.Load)},
			{"agreed start", f.StartAt.String(), like.StartAt.String()},
		} {
			if differs.here != differs.there {
				return fmt.Errorf("%s and %s are not of one run: the %s is %s in one, and %s in the other", s.first.dir, dir, differs.what, differs.there, differs.here)
			}
		}
		if other := &s.all[f.Index]; other.dir != "" {
			return fmt.Errorf("%s and %s are both shard %d of %d; leave one out", other.dir, dir, f.Index, f.Count)
		}
	}
	s.all[f.Index] = k
	if s.first == nil || f.Index < s.first.index {
		s.first = &s.all[f.Index]
		s.like, s.plan = &s.first.file, s.first.plan
	}
	return nil
}

// short is a digest that people can compare.
func short(digest string) string { return digest[:min(len(digest), 19)] }

// findPlanned finds who knows what a lost shard was to send: itself, or the one before it.
func (s *Shards) findPlanned() error {
	for _, k := range s.lost {
		before := &s.all[(k.index+len(s.all)-1)%len(s.all)]
		for _, from := range []struct{ dir, name string }{{k.dir, shard.PlannedName}, {before.dir, shard.PlannedNextName}} {
			name := filepath.Join(from.dir, from.name)
			if _, err := os.Stat(name); err == nil && from.dir != "" && k.planned == "" {
				k.planned = name
			}
		}
		if k.dir == "" {
			continue
		}
		k.has = newBitmap(s.like.Whole)
		if _, err := report.EachRecord(k.dir, func(r *record.Record) { k.has.set(number(r)) }); err != nil && !errors.Is(err, report.ErrNoResults) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// number is a request's number in the whole load, which its id ends with; -1 if it has none.
func number(r *record.Record) int64 {
	n, err := strconv.ParseInt(r.RequestID[strings.LastIndexByte(r.RequestID, '-')+1:], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// bitmap is a set of numbers from 0 on.
type bitmap []uint64

func newBitmap(n int64) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) set(n int64) {
	if n >= 0 && n/64 < int64(len(b)) {
		b[n/64] |= 1 << (n % 64)
	}
}

func (b bitmap) count() (n int64) {
	for _, word := range b {
		n += int64(bits.OnesCount64(word))
	}
	return n
}

func (b bitmap) has(n int64) bool { return n >= 0 && n/64 < int64(len(b)) && b[n/64]>>(n%64)&1 == 1 }

// what says what became of a lost shard.
func (k *source) what() string {
	if k.dir == "" {
		return fmt.Sprintf("shard %d left no results", k.index)
	}
	return fmt.Sprintf("shard %d ended before its run did", k.index)
}

// records calls yield with each record of the shard: those on disk, or else what it was to send, unsent.
func (k *source) records(yield func(*record.Record) bool) error {
	stop := errors.New("enough")
	pass := func(r *record.Record) error {
		if !yield(r) {
			return stop
		}
		return nil
	}
	if k.dir != "" {
		if err := report.EachRecordIn(k.dir, pass); err != nil && !errors.Is(err, report.ErrNoResults) {
			return ignore(err, stop)
		}
	}
	if k.planned == "" || k.summary != nil {
		return nil
	}
	return ignore(report.EachRecordOf(k.planned, func(r *record.Record) error {
		if k.has.has(number(r)) {
			return nil
		}
		r.Error = k.what()
		return pass(r)
	}), stop)
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// reasons say which shards are lost, and what that means; nil if none is.
func (s *Shards) reasons(unsent int64) []metrics.Reason {
	if len(s.lost) == 0 {
		return nil
	}
	var what []string
	for _, k := range s.lost {
		what = append(what, k.what())
	}
	r := metrics.Reason{Code: "shards", Grade: metrics.Invalid, What: strings.Join(slices.Compact(what), "; "),
		Why: format.Many(unsent, "request") + " of theirs were not sent, or nobody knows what became of them", Do: "see the shard's own output, and run again"}
	return []metrics.Reason{r}
}
