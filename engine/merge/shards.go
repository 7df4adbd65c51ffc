// Package merge makes one run of the results of shards, as one machine would have written them.
//
// It owns which directories belong together, the order of the records, the correction of clocks, and how facts of
// several clients add up. It also owns what is known of the requests of a lost shard. Numbers of requests are computed
// from all records by package collect. Memory does not grow with the records, but for a bit each; see
// collect.Collector.Spill.
//
// The package is not an API: any release may change it.
package merge

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
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
	dir     string // "" = nothing
	file    File   // of a missing one its index alone
	plan    *report.Plan
	summary *metrics.Summary // nil = the shard is lost: it ended before its run did, or has no directory

	// After its records were read:
	seen    record.Lines // all of them
	own     int64        // of these such as were the first of a request of the load
	again   int64        // of these such as had come before, from this shard or another
	strange int64        // and such as are not of this load
}

// Shards are the results of the shards of one run.
type Shards struct {
	all   []*source // by index, missing ones too
	first *source   // the first that has a directory
	lost  []*source

	has []uint64 // a bit for each request of the load, by its number: whether a record of it was read
	// of requests of lost shards, those that have a record; of these the ones that were made here
	known, unsent int64
}

// What a directory may say of a load. Shards beyond this need a file descriptor and 1 kB each; a plan numbers
// requests in 32 bits.
const (
	mostShards   = 10_000
	mostRequests = math.MaxInt32
	mostAheadNS  = 24 * 3600 * 1e9 // of a clock that was set right at the start
)

// Open reads what the directories of shards say of themselves; a directory of such directories stands for them. It
// returns an error if they are not of one run. Missing shards are none.
func Open(dirs []string) (*Shards, error) {
	s := new(Shards)
	for _, dir := range dirs {
		found := []string{filepath.Join(dir, FileName)}
		if _, err := os.Stat(found[0]); err != nil {
			found, _ = filepath.Glob(filepath.Join(dir, "*", FileName))
		}
		if len(found) == 0 {
			return nil, fmt.Errorf(
				"%s is no directory of a shard: it has no %s; give the directories that --shard runs wrote",
				dir, FileName,
			)
		}
		for _, name := range found {
			if err := s.open(name); err != nil {
				return nil, err
			}
		}
	}
	if s.first == nil {
		return nil, fmt.Errorf("%s: no shard was told the start, so nothing was sent", strings.Join(dirs, ", "))
	}
	for _, k := range s.all {
		if k.summary == nil {
			s.lost = append(s.lost, k)
		}
	}
	s.has = make([]uint64, s.Records()/64+1)
	return s, s.complete()
}

// complete returns an error if the shards do not have all requests of the load between them.
func (s *Shards) complete() error {
	var total int64
	for _, k := range s.all {
		total += k.file.Requests
	}
	if total > s.Records() || total < s.Records() && len(s.lost) == 0 {
		return fmt.Errorf("by their %s the shards were to send %s requests together, and the load has %s",
			FileName, format.Count(total), format.Count(s.Records()))
	}
	return nil
}

// Records is how many requests the whole load has.
func (s *Shards) Records() int64 {
	return s.first.file.Workload.Requests
}

// open reads what the directory of a shard says, of which name is the FileName.
func (s *Shards) open(name string) error {
	dir := filepath.Dir(name)
	k := &source{dir: dir}
	f := &k.file
	err := report.ReadJSON(name, f)
	if err == nil {
		err = cmp.Or(check(name, f), checkSeal(dir))
	}
	if err != nil {
		return err
	}
	if f.StartAt.IsZero() && f.Count > 1 { // it ended before it was told the start, and sent nothing
		return nil
	}
	k.plan, err = report.ReadPlan(dir)
	if err != nil {
		return err
	}
	if k.plan == nil {
		return fmt.Errorf("%s has no %s", dir, report.PlanName)
	}
	_, missing := os.Lstat(filepath.Join(dir, report.SummaryName))
	if missing == nil {
		k.summary, err = report.Load(dir)
		if err != nil {
			return err
		}
	}
	servers := strings.Join(k.plan.Run.Targets, " ")
	if counted := k.counted(); counted != "" && counted != servers {
		return fmt.Errorf("%s names the servers %q, and %s has numbers of %s; was a file edited?",
			filepath.Join(dir, report.PlanName), servers, report.SummaryName, counted)
	}
	like := cmp.Or(s.first, k)
	for _, differs := range []struct{ what, here, there string }{
		{"version of fastreplay", f.Version, like.file.Version},
		{"number of shards", strconv.Itoa(f.Count), strconv.Itoa(like.file.Count)},
		{"load (trace, flags or servers)", short(f.Identity), short(like.file.Identity)},
		{"number of requests", format.Count(f.Workload.Requests), format.Count(like.file.Workload.Requests)},
		{"agreed start", f.StartAt.String(), like.file.StartAt.String()},
		{"servers", servers, strings.Join(like.plan.Run.Targets, " ")},
	} {
		if differs.here != differs.there {
			return fmt.Errorf("%s and %s are not of one run: the %s is %s in one, and %s in the other",
				like.dir, dir, differs.what, differs.there, differs.here)
		}
	}
	for i := len(s.all); i < f.Count; i++ {
		s.all = append(s.all, &source{file: File{Index: i}})
	}
	if other := s.all[f.Index]; other.dir != "" {
		return fmt.Errorf("%s and %s are both shard %d of %d; leave one out", other.dir, dir, f.Index, f.Count)
	}
	s.all[f.Index] = k
	if s.first == nil || f.Index < s.first.file.Index {
		s.first = k
	}
	return nil
}

// counted are the servers that the summary has numbers of; "" if there is none, or it has none.
func (k *source) counted() string {
	if k.summary == nil {
		return ""
	}
	var urls []string
	for i := range k.summary.Targets {
		urls = append(urls, k.summary.Targets[i].URL)
	}
	return strings.Join(urls, " ")
}

// check returns an error if a shard.json of that name says what no shard writes.
func check(name string, f *File) error {
	n := f.Workload.Requests
	if f.Schema != Schema || f.Index < 0 || f.Index >= f.Count ||
		f.Count > mostShards {
		return fmt.Errorf("%s: shard %d of %d, schema %d: this version reads schema %d, of at most %d shards",
			name, f.Index, f.Count, f.Schema, Schema, mostShards)
	}
	if n < 0 || n > mostRequests || f.Requests < 0 || f.Requests > n {
		return fmt.Errorf("%s: %d of %d requests: no load is so; was the file edited?", name, f.Requests, n)
	}
	for _, o := range f.Clock {
		off := math.Abs(float64(o.OffsetNS) - float64(f.StartNS))
		at := math.Abs(float64(o.AtNS)) // which cannot overflow
		if off > mostAheadNS || o.ErrorNS < 0 || o.ErrorNS > mostAheadNS ||
			at > record.MostNumber {
			return fmt.Errorf(
				"%s: a clock that was %d ns ahead at the start, and %d ± %d ns later: no run has such; was the "+
					"file edited?",
				name, f.StartNS, o.OffsetNS, o.ErrorNS,
			)
		}
	}
	return nil
}

// short is a digest that people can compare.
func short(digest string) string {
	return digest[:min(len(digest), 19)]
}

// number is a request's number in the whole load, which its id ends with; below 0 if it is none of the load.
func (s *Shards) number(r *record.Record) int64 {
	dash := strings.LastIndexByte(r.RequestID, '-')
	n, err := strconv.ParseInt(r.RequestID[dash+1:], 10, 64)
	if err != nil || n >= s.Records() {
		return -1
	}
	return n
}

// take notes that a request has a record, and reports whether it had none before.
func (s *Shards) take(n int64) (first bool) {
	first = s.has[n/64]>>(n%64)&1 == 0
	s.has[n/64] |= 1 << (n % 64)
	return first
}

// what says what became of a lost shard.
func (k *source) what() string {
	if k.dir == "" {
		return fmt.Sprintf("shard %d left no results", k.file.Index)
	}
	return fmt.Sprintf("shard %d ended before its run did", k.file.Index)
}

// records are those of a shard on disk, on the clock of shard 0. Of a lost shard they are also those that the one
// before it knows that it was to send; they are unsent. A record is valid until the next.
func (s *Shards) records(k *source) iter.Seq2[*record.Record, error] {
	lost := k.summary == nil
	n := len(s.all)
	before := s.all[(k.file.Index+n-1)%n].dir
	released := s.first.plan.Run.Concurrency > 0
	if !lost {
		turns := k.summary.Turns
		released = released || k.summary.Cap != nil || turns != nil && turns.Sessions != "strict"
	}
	return func(yield func(*record.Record, error) bool) {
		for r, err := range report.RecordsOf(report.RecordsName(k.dir), &k.seen) {
			if k.dir == "" || errors.Is(err, report.ErrNoResults) {
				break
			}
			if err == nil {
				onCommonClock(r, &k.file, released)
				s.note(k, r)
			}
			if !yield(r, err) {
				return
			}
		}
		if !lost || before == "" {
			return
		}
		for r, err := range report.RecordsOf(filepath.Join(before, PlannedNextName), nil) {
			if errors.Is(err, report.ErrNoResults) {
				return
			}
			if err == nil {
				n := s.number(r)
				if n >= 0 && !s.take(n) {
					continue
				}
				if n < 0 || r.Outcome != record.NotSent {
					err = fmt.Errorf(
						"%s has a record of %s, which is no request that was to be sent; was the file edited?",
						filepath.Join(before, PlannedNextName), r.RequestID,
					)
				}
				r.Error = k.what()
				s.known++
				s.unsent++
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// note counts a record of a shard among those of its request.
func (s *Shards) note(k *source, r *record.Record) {
	n := s.number(r)
	switch {
	case n < 0 && r.LeftOut(): // by --too-long drop: no part of the load
	case n < 0:
		k.strange++
	case !s.take(n):
		k.again++
	default:
		k.own++
		if k.summary == nil {
			s.known++
		}
	}
}

// proven reports whether a shard's file of records is, by its checksum, the one that it wrote.
func (k *source) proven() bool {
	if k.summary == nil || k.summary.Records == nil {
		return false
	}
	return *k.summary.Records == k.seen
}

// unlike says in what the records of a shard differ from those that it wrote; "" if in nothing.
func (k *source) unlike() string {
	var what []string
	if k.summary != nil {
		what = format.Present(k.summary.Unlike(k.seen))
		missing := k.file.Requests - k.own - k.again - k.summary.Requests.Unwritten
		if len(what) == 0 && missing > 0 {
			what = append(what, fmt.Sprintf("%s of the %s that its %s promises",
				format.Count(k.own), format.Many(k.file.Requests, "record"), FileName))
		}
	}
	if k.again > 0 {
		what = append(what, format.Many(k.again, "record")+" of requests that have one already")
	}
	if k.strange > 0 {
		what = append(what, format.Many(k.strange, "record")+" of no request of the load")
	}
	if len(what) == 0 {
		return ""
	}
	has := strings.Join(what, ", and ")
	return fmt.Sprintf("shard %d: %s has %s", k.file.Index, report.RecordsName(k.dir), has)
}

// ahead is by how much the instants of a shard are ahead of those of shard 0, atNS after the start. It is the clock's
// offset then, less the offset by which the shard has moved its start. Between two measurements it is a line. What is
// within the error of the measurement is 0.
func ahead(f *File, atNS int64) int64 {
	i, _ := slices.BinarySearchFunc(f.Clock, atNS, func(o shard.Offset, at int64) int {
		return cmp.Compare(o.AtNS, at)
	})
	from := max(0, i-1)
	to := min(i+1, len(f.Clock))
	around := f.Clock[from:to]
	if len(around) == 0 {
		return 0
	}
	a := around[0]
	b := around[len(around)-1]
	off := a.OffsetNS - f.StartNS
	within := max(a.ErrorNS, b.ErrorNS)
	if b.AtNS > a.AtNS {
		share := float64(atNS-a.AtNS) / float64(b.AtNS-a.AtNS)
		off += int64(share * float64(b.OffsetNS-a.OffsetNS))
	}
	if max(off, -off) <= within {
		return 0
	}
	return off
}

// onCommonClock moves the instants of a record to the clock of shard 0. The planned instant is the plan's, which no
// clock moves, unless other requests released this one.
func onCommonClock(r *record.Record, f *File, released bool) {
	off := ahead(f, max(r.SentNS, r.DoneNS, 0))
	r.MoveInstants(off)
	if released && r.PlannedNS != record.None {
		r.PlannedNS -= off
	}
	if r.SentNS != record.None {
		r.SentAt = record.Wall(f.StartAt.UnixMicro() + r.SentNS/1000)
	}
}

// reasons say which shards are lost, and whose records are not what they wrote; nil if none.
func (s *Shards) reasons(unsent int64) (all []metrics.Reason) {
	var lost, wrong, unlike []string
	for _, k := range s.lost {
		lost = append(lost, k.what())
	}
	// if a record is in two files, the one with a wrong checksum has it wrongly
	for _, proven := range []bool{false, true} {
		for _, k := range s.all {
			if len(unlike) == 0 && k.proven() == proven {
				wrong = append(wrong, format.Present(k.unlike())...)
			}
		}
		unlike = wrong
	}
	if len(lost) > 0 {
		all = append(all, metrics.Reason{
			Code:  metrics.LostShards,
			Grade: metrics.Invalid,
			What:  strings.Join(lost, "; "),
			Why:   format.Requests(unsent) + " of theirs were not sent, or nobody knows what became of them",
			Do:    "see the shard's own output, and run again",
		})
	}
	if len(unlike) > 0 {
		all = append(all, metrics.Reason{
			Code:  metrics.Records,
			Grade: metrics.Invalid,
			What:  strings.Join(unlike, "; "),
			Why:   "files were cut, edited or mixed with others after the run",
			Do:    "bring back the files that the shards wrote, and merge again",
		})
	}
	return all
}
