package merge

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// Write merges the shards into dir, which is empty: the files of a run. seen counts records.
func (s *Shards) Write(dir string, seen *atomic.Int64) (sum *metrics.Summary, err error) {
	plan := s.first.plan
	started := s.first.file.StartAt
	urls := plan.Run.Targets
	slos := []metrics.SLO(nil)
	if i := slices.IndexFunc(s.all, func(k *source) bool {
		return k.summary != nil
	}); i >= 0 {
		slos = report.SLOsOf(s.all[i].summary)
	}
	c := collect.NewCollector(urls, slos...)
	if s.all[0].summary != nil && len(s.all[0].summary.Actions) > 0 {
		c.KeepHits()
	}
	if err := c.Spill(dir); err != nil {
		return nil, err
	}
	defer func() {
		err = cmp.Or(err, c.EndSpill())
	}()
	w, err := report.NewWriter(dir, report.WriterOptions{Compress: s.Records() >= 1_000_000})
	if err != nil {
		return nil, err
	}
	endNS, err := s.copyRecords(c, w, seen)
	_, closed := w.Close()
	err = cmp.Or(err, closed)
	if err == nil {
		err = cmp.Or(s.addGaps(c), s.copySamples(dir))
	}
	if err != nil {
		return nil, err
	}
	sum, err = s.summary(c, w.Lines(), endNS)
	if err != nil {
		return nil, err
	}
	plan.Run = sum.Run
	plan.Workload = sum.Workload
	plan.Load = s.first.file.Load
	plan.WireBytes = sum.Client.WireBytes
	ended := started.Add(time.Duration(endNS))
	return sum, errors.Join(
		report.WritePlan(dir, plan),
		report.WriteSummary(dir, sum),
		report.WriteTimeline(dir, c.Timeline()),
		report.WriteHistograms(dir, c, started, ended),
	)
}

// copyRecords counts and writes the records of all shards, and returns when the last request ended.
func (s *Shards) copyRecords(c *collect.Collector, w *report.Writer, seen *atomic.Int64) (endNS int64, err error) {
	var n int64
	for r, err := range s.byEnd() {
		if err != nil {
			return endNS, err
		}
		c.Add(r, slices.Index(s.first.plan.Run.Targets, r.Target))
		w.Append(r)
		endNS = max(endNS, lastInstant(r))
		n++
		if n%4096 == 0 {
			seen.Store(n)
			if err := w.Flush(); err != nil {
				return endNS, err
			}
		}
	}
	return endNS, nil
}

// lastInstant is when a request ended, or else was to leave.
func lastInstant(r *record.Record) int64 {
	if end := r.EndNS(); end != record.None {
		return end
	}
	return r.PlannedNS
}

// byEnd are the records of all shards in order of completion. A record is valid until the next.
func (s *Shards) byEnd() iter.Seq2[*record.Record, error] {
	type stream struct { // of one shard; its first record is at hand
		r    *record.Record
		err  error
		end  int64
		next func() (*record.Record, error, bool)
	}
	return func(yield func(*record.Record, error) bool) {
		var all []*stream
		advance := func(k *stream) (more bool) {
			k.r, k.err, more = k.next()
			if more && k.err == nil {
				k.end = lastInstant(k.r)
			}
			return more
		}
		for _, from := range s.all {
			next, stop := iter.Pull2(s.records(from))
			defer stop()
			k := &stream{next: next}
			if advance(k) {
				all = append(all, k)
			}
		}
		for len(all) > 0 {
			k := slices.MinFunc(all, func(a, b *stream) int {
				return cmp.Compare(a.end, b.end)
			})
			if !yield(k.r, k.err) {
				return
			}
			if !advance(k) {
				all = slices.DeleteFunc(all, func(other *stream) bool {
					return other == k
				})
			}
		}
	}
}

// addGaps adds the gaps between token chunks, which only histograms have.
func (s *Shards) addGaps(c *collect.Collector) error {
	for i, k := range s.all {
		if k.summary == nil {
			continue
		}
		counted := map[string]int64{}
		err := report.EachGaps(k.dir, func(target string, gaps *hdrhistogram.Histogram) {
			at := slices.IndexFunc(k.summary.Targets, func(t metrics.Target) bool {
				return t.URL == target
			})
			if at < 0 {
				return
			}
			counted[target] += gaps.TotalCount()
			c.AddGapCounts(at, gaps, k.summary.Targets[at].ITLMS)
		})
		if err != nil {
			return err
		}
		for _, t := range k.summary.Targets {
			var want int64
			if t.ITLMS != nil {
				want = t.ITLMS.Count
			}
			if got := counted[t.URL]; got != want {
				return fmt.Errorf(
					"shard %d: %s has %s between token chunks of %s, and the run counted %s; was the file edited?",
					i,
					filepath.Join(k.dir, report.HistogramsName),
					format.Many(got, "gap"),
					t.URL,
					format.Count(want),
				)
			}
		}
	}
	return nil
}

// summary is that of the whole run.
func (s *Shards) summary(c *collect.Collector, records *record.Lines, endNS int64) (*metrics.Summary, error) {
	plan := s.first.plan
	file := &s.first.file
	sum := metrics.Summary{
		Run:      plan.Run,
		Workload: file.Workload,
		Limits:   plan.Limits,
		Requests: metrics.Requests{Planned: records.Count - c.Unmeasured()},
		Records:  records,
	}
	sum.AddNotes(0, plan.Notes)
	sum.Run.StartedAt = file.StartAt
	sum.Run.Host.CPUs = 0
	sum.Run.Concurrency = 0
	sum.Run.Lanes = 0
	delete(sum.Run.Options, "shard")
	facts := &metrics.Summary{}
	known := s.known
	first := true
	for i, k := range s.all {
		if k.plan != nil {
			sum.Run.Concurrency += k.plan.Run.Concurrency
			sum.Run.Lanes += k.plan.Run.Lanes
			if !slices.ContainsFunc(sum.Shards, func(o metrics.Shard) bool {
				return o.Host == k.plan.Run.Host.Name
			}) {
				sum.Run.Host.CPUs += k.plan.Run.Host.CPUs
			}
		}
		if k.summary != nil {
			known += k.file.Requests
			own := *k.summary
			if own.Run.SenderDied != "" {
				own.Run.SenderDied = fmt.Sprintf("shard %d: %s", i, own.Run.SenderDied)
			}
			facts.MergeFacts(&own, first)
			first = false
		}
		sum.Shards = append(sum.Shards, k.row())
	}
	if len(s.lost) > 0 {
		facts.Run.Partial = true
	}
	facts.Run.DurationS = max(facts.Run.DurationS, float64(endNS)/1e9)
	facts.Lateness.Reading = metrics.OnceEach(facts.Lateness.Reading)
	sum.SetFacts(facts)
	if leader := s.all[0].summary; leader != nil {
		sum.Servers = leader.Servers
		sum.Amplify = leader.Amplify
		sum.Actions = leader.Actions
		sum.Routing = s.all[0].file.Routing
		if sum.Servers != nil {
			sum.Servers.Apart = s.countedApart(endNS)
		}
	}
	var err error
	sum.Workload.Fingerprint, err = s.fingerprint()
	if err != nil {
		return nil, err
	}
	notes := s.clockNotes()
	notes.Add(true, "merged",
		"merged from shards: nobody looked for why hits are below the ideal, and percentiles that records do not "+
			"have, such as the receive lag, are those of the worst shard")
	sum.AddNotes(len(sum.Notes), notes)
	out := c.Summary(sum, collect.Probed{})
	out.SetFacts(facts)
	rest := int64(0) // planned, and in nobody's files
	if len(s.lost) > 0 {
		rest = max(0, s.Records()-known)
	}
	out.Requests.Planned += rest
	out.Requests.Stopped += rest
	out.Requests.ByOutcome[record.NotSent.String()] += rest
	out.Verdict = verdict.Judge(out, s.reasons(s.unsent+rest)...)
	if len(s.lost) > 0 { // which says it
		out.Verdict.Drop(metrics.Interrupted)
	}
	return out, nil
}

// countedApart says what the servers' counts, which shard 0 has read, have beside the shards' requests, or lack of
// them; "" = nothing is known.
func (s *Shards) countedApart(endNS int64) string {
	counted := s.all[0].file.Counted
	if counted == nil {
		return ""
	}
	for i, k := range s.all {
		if k.plan != nil && k.file.ReadyNS > counted[0] {
			return fmt.Sprintf("shard %d asked the servers before its start when shard 0 counted already", i)
		}
	}
	if endNS > counted[1] {
		last := format.Seconds(float64(counted[1]) / 1e9)
		ended := format.Seconds(float64(endNS) / 1e9)
		return "shard 0 read them last after " + last + ", and requests of other shards ended until " + ended
	}
	return ""
}

// row is what the summary says of a shard.
func (k *source) row() metrics.Shard {
	one := metrics.Shard{
		Index: int64(k.file.Index),
		State: metrics.ShardMissing,
	}
	if k.plan != nil {
		one.State = metrics.ShardEnded
		one.Host = k.plan.Run.Host.Name
		one.Requests = k.file.Requests
		one.LateMS = float64(k.file.LateNS) / 1e6
	}
	if len(k.file.Clock) > 0 {
		size := func(o shard.Offset) int64 { return max(o.OffsetNS, -o.OffsetNS) }
		most := slices.MaxFunc(k.file.Clock, func(a, b shard.Offset) int {
			return cmp.Compare(size(a), size(b))
		})
		one.ClockUS = new(float64(most.OffsetNS) / 1e3)
		one.ClockWithinUS = new(float64(most.ErrorNS) / 1e3)
	}
	if t := k.summary; t != nil {
		one.State = metrics.ShardWhole
		one.OK = t.Requests.OK
		one.CPUS = t.Client.CPUS
		one.StolenShare = t.Client.StolenShare
		one.Verdict = string(t.Verdict.Measurement)
		if t.DriftUS != nil {
			one.DriftP99US = &t.DriftUS.P99
		}
		if lag := t.Client.ReceiveLagUS; lag != nil {
			one.ReceiveLagP99 = &lag.P99
		}
	}
	return one
}

// clockNotes say which clocks were not compared.
func (s *Shards) clockNotes() metrics.Notes {
	for i, k := range s.all {
		if i > 0 && k.summary != nil && len(k.file.Clock) == 0 {
			why := cmp.Or(k.file.ClockErr, "shard 0 did not answer")
			return metrics.NotesOf("clocks_not_compared",
				"the shards' clocks were not compared, so instants of different shards are as far apart as these "+
					"were: %s", why)
		}
	}
	return nil
}

// fingerprint is that of the whole run: SHA-256 over planned instants and digests in the plan's order. It is "" if a
// shard has none.
func (s *Shards) fingerprint() (string, error) {
	type stream struct { // of one shard's digests
		*bufio.Reader
		own hash.Hash // of them alone
	}
	all := make([]stream, len(s.all))
	for i, k := range s.all {
		name := filepath.Join(k.dir, DigestsName)
		file, err := report.Open(name, digestBytes*s.Records())
		if errors.Is(err, fs.ErrNotExist) || k.dir == "" {
			return "", nil
		} else if err != nil {
			return "", err
		}
		defer file.Close()
		all[i] = stream{bufio.NewReaderSize(file, 1<<16), sha256.New()}
	}
	h := sha256.New()
	for n := range uint64(s.Records()) {
		var failed error
		i := slices.IndexFunc(all, func(in stream) bool {
			line, err := in.Peek(digestBytes)
			if err != nil && err != io.EOF {
				failed = err
			}
			return err == nil && binary.LittleEndian.Uint64(line) == n
		})
		if i < 0 {
			return "", cmp.Or(failed,
				fmt.Errorf("no shard has the digest of request %s in its %s", format.Count(int64(n)),
					DigestsName))
		}
		line, _ := all[i].Peek(digestBytes)
		h.Write(line[8:])
		all[i].own.Write(line[8:])
		_, _ = all[i].Discard(digestBytes)
	}
	for i, k := range s.all {
		_, err := all[i].Peek(1)
		own := hashText(all[i].own)
		said := own
		if k.summary != nil {
			said = cmp.Or(k.summary.Workload.Fingerprint, own)
		}
		if err != io.EOF || said != own {
			return "", fmt.Errorf("shard %d: %s does not have what the run wrote; was the file edited?",
				i, filepath.Join(k.dir, DigestsName))
		}
	}
	return hashText(h), nil
}

// digestBytes is what DigestsName has of a request.
const digestBytes = 48

func hashText(h hash.Hash) string {
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// copySamples copies what shard 0 has read of the servers' metrics.
func (s *Shards) copySamples(dir string) error {
	from := s.all[0].dir
	if from == "" {
		return nil
	}
	in, err := report.Open(filepath.Join(from, report.ServerMetricsName), math.MaxInt64)
	if errors.Is(err, fs.ErrNotExist) {
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
