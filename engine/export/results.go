package export

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// results is what a run left on disk.
type results struct {
	dir     string
	summary *metrics.Summary
	gaps    *hdrhistogram.Histogram // between token chunks, ns; nil where there are none
}

func load(dir string, slos ...metrics.SLO) (*results, error) {
	summary, err := report.Load(dir, slos...)
	if err != nil {
		return nil, err
	}
	gaps, err := loadGaps(dir)
	return &results{dir, summary, gaps}, err
}

// loadGaps adds up the gaps of all targets. A run that was killed has no histograms.
func loadGaps(dir string) (*hdrhistogram.Histogram, error) {
	in, err := os.Open(filepath.Join(dir, report.HistogramsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	all, err := metrics.ReadHistograms(in)
	if err != nil {
		return nil, err
	}
	var gaps *hdrhistogram.Histogram
	for _, h := range all {
		switch {
		case h.Metric != "itl":
		case gaps == nil:
			gaps = h.Values
		default:
			gaps.Merge(h.Values)
		}
	}
	return gaps, nil
}

// gapMS is a percentile of the gaps by nearest rank, as in the summary. The library rounds q/100 of the samples to the nearest
// rank; asking for the rank itself makes that exact.
func (r *results) gapMS(q float64) float64 {
	n := float64(r.gaps.TotalCount())
	rank := max(1, math.Ceil(q*n/100))
	return min(float64(r.gaps.ValueAtQuantile(100*rank/n))/1e6, r.longestGapMS())
}

// longestGapMS is exact where the summary has it.
func (r *results) longestGapMS() float64 {
	if itl := r.summary.ITLMS; itl != nil {
		return itl.Max
	}
	return float64(r.gaps.Max()) / 1e6
}

// each calls f with every record but those of requests that an interrupted run never sent, which other tools do not know.
func (r *results) each(f func(*record.Record)) error {
	_, err := report.EachRecord(r.dir, func(rec *record.Record) {
		if rec.Outcome != record.NotSent {
			f(rec)
		}
	})
	return err
}

// wall turns an instant of the run into wall-clock time; false where the run's start is not known, as after a crash.
func (r *results) wall(ns int64) (time.Time, bool) {
	start := r.summary.Run.StartedAt
	return start.Add(time.Duration(ns)), !start.IsZero() && ns != record.None
}

// end is the wall-clock time of the run's end.
func (r *results) end() (time.Time, bool) {
	return r.wall(int64(math.Round(r.summary.Run.DurationS * 1e9)))
}

// option is a flag as given, "" where it was not.
func (r *results) option(name string) string {
	text, _ := r.summary.Run.Options[name].(string)
	return text
}
