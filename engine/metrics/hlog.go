package metrics

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
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
		out.OutputLogFormatVersion(), out.OutputComment("values in nanoseconds; maxima in milliseconds; Tag=metric@target"),
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
		for _, m := range targets[i].metrics() {
			values, early := m.dist.histograms()
			if err := cmp.Or(line(values, m.name, c.urls[i]), line(early, m.name+"_early", c.urls[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadHistograms reads a log that WriteHistograms wrote.
func ReadHistograms(r io.Reader) ([]Tagged, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	in := hdrhistogram.NewHistogramLogReader(bytes.NewReader(data))
	var out []Tagged
	for {
		h, err := in.NextIntervalHistogram()
		if err != nil {
			return nil, fmt.Errorf("histogram %d: %w", len(out)+1, err)
		}
		if h == nil {
			return out, nil
		}
		metric, escaped, _ := strings.Cut(h.Tag(), "@")
		target, err := url.PathUnescape(escaped)
		if err != nil {
			return nil, fmt.Errorf("histogram %d: tag %q: %w", len(out)+1, h.Tag(), err)
		}
		out = append(out, Tagged{Metric: metric, Target: target, Values: h})
	}
}
