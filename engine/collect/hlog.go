package collect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// Tagged is one histogram of a log. Values are ns, 1 ns to 1 h, 3 significant
// digits; "drift_early" holds the size of negative drifts.
type Tagged struct {
	Metric string // "ttft", "itl", …
	Target string // URL
	Values *hdrhistogram.Histogram
}

// WriteHistograms writes the HdrHistogram log (format 1.3) of the run from start to end. It has a line for each metric
// and target with samples, tagged "metric@URL". The whole run is the sum over its targets.
func (c *Collector) WriteHistograms(w io.Writer, start, end time.Time) error {
	out := hdrhistogram.NewHistogramLogWriter(w)
	_, targets := c.merged()
	err := errors.Join(
		out.OutputLogFormatVersion(),
		out.OutputComment("values in nanoseconds; maxima in milliseconds; Tag=metric@target"),
		out.OutputStartTime(start.UnixMilli()), out.OutputLegend(),
	)
	if err != nil {
		return err
	}
	inTag := strings.NewReplacer("%", "%25", ",", "%2C", " ", "%20", "\r", "%0D", "\n", "%0A") // what a tag cannot hold
	line := func(h *hdrhistogram.Histogram, metric, target string) error {
		if h == nil || h.TotalCount() == 0 {
			return nil
		}
		h.SetTag(metric + "@" + inTag.Replace(target))
		h.SetStartTimeMs(start.UnixMilli())
		h.SetEndTimeMs(end.UnixMilli())
		return out.OutputIntervalHistogram(h)
	}
	for i := range targets {
		for k, l := range latencies {
			values, early := targets[i].Latencies[k].Histograms()
			if err := cmp.Or(line(values, l.Key, c.urls[i]), line(early, l.Key+"_early", c.urls[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// Histograms are those of a log that WriteHistograms wrote, until the first that it did not write. Each is made when
// it is its turn: a line of 100 bytes takes up to 48 MB.
func Histograms(log []byte) iter.Seq2[Tagged, error] {
	return func(yield func(Tagged, error) bool) {
		lines := 0
		for line := range bytes.Lines(log) {
			lines++
			if line[0] == '#' || bytes.HasPrefix(line, []byte(`"StartTimestamp"`)) { // a comment, or the legend
				continue
			}
			h, err := readHistogram(line)
			if err != nil {
				err = fmt.Errorf("line %d: %w", lines, err)
			}
			if !yield(h, err) || err != nil {
				return
			}
		}
		if lines == 0 || !bytes.HasPrefix(log, []byte("#[Histogram log format")) {
			yield(Tagged{}, errors.New("not a log of histograms"))
		}
	}
}

// readHistogram reads a line of a log.
func readHistogram(line []byte) (t Tagged, err error) {
	h, err := hdrhistogram.NewHistogramLogReader(bytes.NewReader(line)).NextIntervalHistogram()
	switch {
	case err != nil:
		return t, err
	case h == nil:
		return t, errors.New("not a histogram")
	case h.LowestTrackableValue() != stats.LowestNS || h.HighestTrackableValue() != stats.HighestNS ||
		h.SignificantFigures() != stats.SignificantDigits:
		return t, errors.New("not a histogram of ns up to an hour")
	}
	metric, escaped, _ := strings.Cut(h.Tag(), "@")
	if t.Target, err = url.PathUnescape(escaped); err != nil {
		return t, fmt.Errorf("tag %q: %w", h.Tag(), err)
	}
	t.Metric = metric
	t.Values = h
	return t, nil
}
