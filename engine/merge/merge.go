package merge

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/shard"
)

// Records is how many requests the whole load has.
func (s *Shards) Records() int64 { return s.like.Whole }

// Write merges the shards into dir, which is empty: the files of a run. seen counts records.
func (s *Shards) Write(dir string, seen *atomic.Int64) (*metrics.Summary, error) {
	urls, slos := s.targets()
	c := metrics.NewCollector(urls, slos...)
	if err := c.Spill(dir); err != nil {
		return nil, err
	}
	defer c.EndSpill()
	w, err := report.NewWriter(dir, report.WriterOptions{Compress: s.like.Whole >= 1_000_000})
	if err != nil {
		return nil, err
	}
	var endNS, unsent, n int64
	for r, err := range s.byEnd() {
		if err != nil {
			_, _ = w.Close()
			return nil, err
		}
		c.Add(r, slices.Index(urls, r.Target))
		w.Append(r)
		endNS = max(endNS, lastInstant(r))
		if r.Outcome == record.NotSent && s.lostThis(r) {
			unsent++
		}
		if n++; n%4096 == 0 {
			seen.Store(n)
			if err := w.Flush(); err != nil {
				return nil, err
			}
		}
	}
	if _, err := w.Close(); err != nil {
		return nil, err
	}
	if err := s.addGaps(c); err != nil {
		return nil, err
	}
	sum, err := s.summary(c, n, endNS, unsent)
	if err != nil {
		return nil, err
	}
	s.plan.Run, s.plan.Workload = sum.Run, sum.Workload
	ended := s.like.StartAt.Add(time.Duration(endNS))
	return sum, errors.Join(report.WritePlan(dir, s.plan), report.WriteSummary(dir, sum), report.WriteTimeline(dir, c.Timeline()),
		report.WriteHistograms(dir, c, s.like.StartAt, ended), s.copySamples(dir))
}

// targets are those of all shards, in one order, and the bounds of goodput.
func (s *Shards) targets() (urls []string, slos []metrics.SLO) {
	urls = slices.Clone(s.plan.Run.Targets)
	for i := range s.all {
		if sum := s.all[i].summary; sum != nil && slos == nil {
			slos = report.SLOsOf(sum)
		}
	}
	return urls, slos
}

// lostThis reports whether a record stands for a request of a lost shard.
func (s *Shards) lostThis(r *record.Record) bool {
	return slices.ContainsFunc(s.lost, func(k *source) bool { return r.Error == k.what() })
}

// lastInstant is when a request ended, or else was to leave.
func lastInstant(r *record.Record) int64 {
	end := max(r.SentNS, r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS)
	if end == record.None {
		end = r.PlannedNS
	}
	return end
}

// stream is the records of one shard that are still to come; the first of them is at hand.
type stream struct {
	r    *record.Record
	end  int64
	next func() (*record.Record, error, bool)
	stop func()
}

type streams []*stream

func (q streams) Len() int           { return len(q) }
func (q streams) Less(i, j int) bool { return q[i].end < q[j].end }
func (q streams) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *streams) Push(x any)        { *q = append(*q, x.(*stream)) }
func (q *streams) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// byEnd are the records of all shards in order of completion, on the clock of shard 0. A record is valid until the next.
func (s *Shards) byEnd() iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		var q streams
		defer func() {
			for _, k := range q {
				k.stop()
			}
		}()
		advance := func(k *stream) (more bool, err error) {
			r, err, more := k.next()
			if more && err == nil {
				k.r, k.end = r, lastInstant(r)
			}
			return more, err
		}
		for i := range s.all {
			from := &s.all[i]
			next, stop := iter.Pull2(s.onCommonClock(from))
			k := &stream{next: next, stop: stop}
			q = append(q, k)
			switch more, err := advance(k); {
			case err != nil:
				yield(nil, err)
				return
			case !more:
				q = q[:len(q)-1]
			}
		}
		heap.Init(&q)
		for len(q) > 0 {
			k := q[0]
			if !yield(k.r, nil) {
				return
			}
			switch more, err := advance(k); {
			case err != nil:
				yield(nil, err)
				return
			case more:
				heap.Fix(&q, 0)
			default:
				heap.Pop(&q)
			}
		}
	}
}

// onCommonClock are the records of one shard.
func (s *Shards) onCommonClock(k *source) iter.Seq2[*record.Record, error] {
	released := s.plan.Run.Concurrency > 0 || k.summary != nil && (k.summary.Cap != nil || k.summary.Turns != nil && k.summary.Turns.Sessions != "strict")
	return func(yield func(*record.Record, error) bool) {
		err := k.records(func(r *record.Record) bool {
			if k.dir != "" {
				onCommonClock(r, &k.file, released)
			}
			return yield(r, nil)
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// addGaps adds the gaps between token chunks, which only histograms have.
func (s *Shards) addGaps(c *metrics.Collector) error {
	for i := range s.all {
		k := &s.all[i]
		if k.summary == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(k.dir, report.HistogramsName))
		if err != nil {
			return err
		}
		all, err := metrics.ReadHistograms(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(k.dir, report.HistogramsName), err)
		}
		for _, h := range all {
			at := slices.IndexFunc(k.summary.Targets, func(t metrics.Target) bool { return t.URL == h.Target })
			if h.Metric == "itl" && at >= 0 {
				c.AddGapCounts(at, h.Values, k.summary.Targets[at].ITLMS)
			}
		}
	}
	return nil
}

// summary is that of the whole run.
func (s *Shards) summary(c *metrics.Collector, records, endNS, unsent int64) (*metrics.Summary, error) {
	sum := metrics.Summary{Run: s.plan.Run, Workload: s.plan.Workload, Limits: s.plan.Limits, Requests: metrics.Requests{Planned: records}, Notes: s.plan.Notes}
	sum.Run.StartedAt, sum.Run.Host.CPUs, sum.Run.Concurrency = s.like.StartAt, 0, 0
	delete(sum.Run.Options, "shard")
	load := &sum.Workload
	load.Requests, load.InputTokens, load.OutputTokens, load.Verbatims, load.ShortRows, load.ShortSurplus, load.LeftOut = 0, 0, 0, 0, 0, 0, 0
	reading := []metrics.Unsafe{}
	var early, mismatches, overLong int64
	var above metrics.PrefixCache
	for i := range s.all {
		k := &s.all[i]
		one := metrics.Shard{Index: int64(i), State: metrics.ShardMissing}
		if k.plan != nil {
			w, r := &k.plan.Workload, &k.plan.Run
			load.Requests, load.InputTokens, load.OutputTokens = load.Requests+w.Requests, load.InputTokens+w.InputTokens, load.OutputTokens+w.OutputTokens
			load.Verbatims, load.ShortRows, load.ShortSurplus, load.LeftOut = load.Verbatims+w.Verbatims, load.ShortRows+w.ShortRows, load.ShortSurplus+w.ShortSurplus, load.LeftOut+w.LeftOut
			if !slices.ContainsFunc(sum.Shards, func(o metrics.Shard) bool { return o.Host == r.Host.Name }) {
				sum.Run.Host.CPUs += r.Host.CPUs
			}
			sum.Run.Concurrency += r.Concurrency
			one.State, one.Host, one.Requests = metrics.ShardEnded, r.Host.Name, k.file.Requests
			one.LateMS = float64(k.file.LateNS) / 1e6
			one.ClockUS, one.ClockWithinUS = clockOf(&k.file)
		}
		if t := k.summary; t != nil {
			sum.Run.DurationS = max(sum.Run.DurationS, t.Run.DurationS)
			add(&sum.Client, &t.Client)
			add(&sum.Connections, &t.Connections)
			add(&sum.Writes, &t.Writes)
			sum.Cap, sum.Turns, sum.History, sum.BuildAhead = added(sum.Cap, t.Cap), added(sum.Turns, t.Turns), added(sum.History, t.History), added(sum.BuildAhead, t.BuildAhead)
			sum.Answers = added(sum.Answers, t.Answers)
			sum.Requests.Unwritten += t.Requests.Unwritten
			sum.Run.Partial, sum.Run.Cut = sum.Run.Partial || t.Run.Partial, sum.Run.Cut || t.Run.Cut
			if t.Run.SenderDied != "" {
				sum.Run.SenderDied = fmt.Sprintf("shard %d: %s", i, t.Run.SenderDied)
			}
			reading, early, mismatches, overLong = worst(reading, t.Lateness.Reading), early+t.Requests.Early, mismatches+t.Tokens.PromptMismatches, overLong+t.Tokens.OverLong
			above.AboveIdealTokens += t.PrefixCache.AboveIdealTokens
			above.AboveIdealRequests += t.PrefixCache.AboveIdealRequests
			sum.PrefixCache.OvertakenTokens += t.PrefixCache.OvertakenTokens
			one.State, one.OK, one.CPUS, one.StolenShare, one.Verdict = metrics.ShardWhole, t.Requests.OK, t.Client.CPUS, t.Client.StolenShare, string(t.Verdict.Measurement)
			if t.DriftUS != nil {
				one.DriftP99US = &t.DriftUS.P99
			}
			if lag := t.Client.ReceiveLagUS; lag != nil {
				one.ReceiveLagP99 = &lag.P99
			}
		}
		sum.Shards = append(sum.Shards, one)
	}
	if first := s.all[0].summary; first != nil {
		sum.Servers, sum.Amplify, sum.Routing = first.Servers, first.Amplify, s.all[0].file.Routing
	}
	if load.Requests == 0 || len(s.lost) > 0 { // of those that left nothing nobody else knows the tokens
		load.Requests = max(load.Requests, s.like.Whole)
	}
	sum.Run.Partial = sum.Run.Partial || len(s.lost) > 0
	sum.Run.DurationS = max(sum.Run.DurationS, float64(endNS)/1e9)
	var err error
	if load.Fingerprint, err = s.fingerprint(); err != nil {
		return nil, err
	}
	sum.Notes = append(sum.Notes, s.clockNotes()...)
	sum.Notes = append(sum.Notes, "merged from shards: nobody looked for why hits are below the ideal, and percentiles that records do not have, such as the receive lag, are those of the worst shard")
	out := c.Summary(sum, metrics.Probed{})
	out.Lateness.Reading = reading
	out.Requests.Early = early // by their own clocks
	out.Tokens.PromptMismatches, out.Tokens.OverLong = mismatches, overLong
	out.PrefixCache.AboveIdealTokens, out.PrefixCache.AboveIdealRequests = above.AboveIdealTokens, above.AboveIdealRequests
	if rest := s.unknown(unsent); rest > 0 { // planned, and in nobody's files
		out.Requests.Planned, out.Requests.Stopped = out.Requests.Planned+rest, out.Requests.Stopped+rest
		out.Requests.ByOutcome[record.NotSent.String()] += rest
		unsent += rest
	}
	out.Verdict = metrics.Judge(out, s.reasons(unsent)...)
	if len(s.lost) > 0 { // which says it
		out.Verdict.Reasons = slices.DeleteFunc(out.Verdict.Reasons, func(r metrics.Reason) bool { return r.Code == "interrupted" })
	}
	return out, nil
}

// unknown is how many requests of missing shards nobody has a record of, of so many that lost shards did not send.
func (s *Shards) unknown(unsent int64) int64 {
	known := unsent
	for i := range s.all {
		if k := &s.all[i]; k.summary != nil {
			known += k.file.Requests
		} else {
			known += k.has.count()
		}
	}
	return max(0, s.like.Whole-known)
}

func added[T any](sum, of *T) *T {
	if of != nil && sum == nil {
		sum = new(T)
	}
	add(sum, of)
	return sum
}

// clockOf is the largest offset of a shard's clock from that of shard 0, and how far it is known, in µs; nil if it is not.
func clockOf(f *shard.File) (offUS, errUS *float64) {
	for _, o := range f.Clock {
		if us := float64(o.OffsetNS) / 1e3; offUS == nil || max(us, -us) > max(*offUS, -*offUS) {
			offUS, errUS = &us, new(float64(o.ErrorNS)/1e3)
		}
	}
	return offUS, errUS
}

// clockNotes say which clocks were not compared.
func (s *Shards) clockNotes() []string {
	for i := range s.all {
		if k := &s.all[i]; k.dir != "" && i > 0 && len(k.file.Clock) == 0 {
			return []string{"the shards' clocks were not compared, so instants of different shards are as far apart as these were: " + cmp.Or(k.file.ClockErr, "no shard asked another")}
		}
	}
	return nil
}

// fingerprint is that of the whole run: SHA-256 over planned instants and digests in the plan's order. It is "" if a shard has none.
func (s *Shards) fingerprint() (string, error) {
	type digested struct {
		number uint64
		at     int64
		digest [sha256.Size]byte
	}
	var heads []func() digested
	var failed error
	for i := range s.all {
		k := &s.all[i]
		file, err := os.Open(filepath.Join(k.dir, shard.DigestsName))
		if errors.Is(err, fs.ErrNotExist) || k.dir == "" {
			return "", nil
		} else if err != nil {
			return "", err
		}
		defer file.Close()
		in := bufio.NewReaderSize(file, 1<<16)
		next, stop := iter.Pull2(func(yield func(*record.Record, error) bool) {
			if err := report.EachRecordOf(filepath.Join(k.dir, shard.PlannedName), func(r *record.Record) error {
				if !yield(r, nil) {
					return io.EOF
				}
				return nil
			}); err != nil && !errors.Is(err, io.EOF) {
				yield(nil, err)
			}
		})
		defer stop()
		heads = append(heads, func() (d digested) {
			var line [8 + sha256.Size]byte
			r, err, more := next()
			if more && err == nil {
				_, err = io.ReadFull(in, line[:])
			}
			if !more || err != nil {
				failed = cmp.Or(failed, err)
				return digested{number: math.MaxUint64}
			}
			d = digested{number: binary.LittleEndian.Uint64(line[:]), at: max(0, r.PlannedNS)}
			copy(d.digest[:], line[8:])
			return d
		})
	}
	h, first := sha256.New(), make([]digested, len(heads))
	for i, next := range heads {
		first[i] = next()
	}
	for n := range uint64(s.like.Whole) {
		i := slices.IndexFunc(first, func(d digested) bool { return d.number == n })
		if i < 0 || failed != nil {
			return "", cmp.Or(failed, fmt.Errorf("no shard has the digest of request %s", format.Count(int64(n))))
		}
		var at [8]byte
		binary.LittleEndian.PutUint64(at[:], uint64(first[i].at))
		h.Write(at[:])
		h.Write(first[i].digest[:])
		first[i] = heads[i]()
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), failed
}

// copySamples copies what shard 0 has read of the servers' metrics.
func (s *Shards) copySamples(dir string) error {
	in, err := os.Open(filepath.Join(s.all[0].dir, report.ServerMetricsName))
	if errors.Is(err, fs.ErrNotExist) || s.all[0].dir == "" {
		return nil
	} else if err != nil {
		return err
	}
	defer in.Close()
	return report.WriteWhole(filepath.Join(dir, report.ServerMetricsName), func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}
