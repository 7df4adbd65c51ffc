package collect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// Precision ends a run when a percentile is known well enough. It looks at few moments, each after twice as many
// requests as the one before. Whoever stops at the first narrow interval stops where chance made it too narrow. Make it
// with ParseUntil. For the same reason the interval must have been at most twice as wide as wanted at the look before.
// Half as many independent requests make it 1.4 times as wide. It belongs to one goroutine.
type Precision struct {
	metrics.Until

	latency  int
	perMille int64
	next     int64 // after how many requests it looks again
}

// firstLook is after how many requests a Precision looks at the soonest.
const firstLook = 400

// ParseUntil reads when a percentile is known well enough, such as ttft.p99±5% or ttft.p99+-5%.
func ParseUntil(text string) (*Precision, error) {
	percentile, width, found := strings.Cut(strings.NewReplacer("+/-", "±", "+-", "±").Replace(text), "±")
	if !found {
		return nil, fmt.Errorf("%q: want PERCENTILE±WIDTH, such as ttft.p99±5%%, or ttft.p99+-5%%", text)
	}
	name, _, err := verdict.FindQuantity(strings.TrimSpace(percentile))
	if err != nil {
		return nil, err
	}
	u := &Precision{Until: metrics.Until{Text: text, PlusMinus: -1, Metric: name}}
	key := ""
	key, u.perMille = metrics.PercentileOf(name)
	u.latency = metrics.FindLatency(key)
	if u.perMille == 0 || !hasIntervals(u.latency) {
		return nil, fmt.Errorf("%q: %s has no interval; want a percentile of a request's latency, such as ttft.p99 or "+
			"e2e.p50", text, name)
	}
	number, isPercent := strings.CutSuffix(strings.TrimSpace(width), "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !isPercent || !(percent > 0 && percent < 100) {
		return nil, fmt.Errorf("%q: %q is no width; want a share of the percentile above 0 %% and below 100 %%, such "+
			"as 5%%", text, strings.TrimSpace(width))
	}
	u.Within = percent / 100
	for u.next = firstLook; !stats.EnoughSamples(u.next, float64(u.perMille)/1000); u.next *= 2 {
	}
	return u, nil
}

// hasIntervals reports whether timings keep a latency.
func hasIntervals(latency int) bool {
	probe := timing{sent: true, output: 1}
	return probe.of(latency) != record.None
}

// Look reports whether the run may end. c must have as many requests as the next look needs, and an interval that is
// narrow enough, as it nearly was before.
func (u *Precision) Look(c *Collector) bool {
	if n := c.okRequests(); n >= u.next {
		for u.next <= n {
			u.next *= 2
		}
		before := u.PlusMinus
		u.measure(c, n)
		u.Reached = isWithin(before, 2*u.Within) && isWithin(u.PlusMinus, u.Within)
	}
	return u.Reached
}

// isWithin reports whether there is an interval, and its ends are near enough.
func isWithin(plusMinus, within float64) bool { return plusMinus >= 0 && plusMinus <= within }

// End measures all of the run, which is over. What was in flight at the last look may have moved the interval.
func (u *Precision) End(c *Collector) { u.measure(c, c.okRequests()) }

func (u *Precision) measure(c *Collector, n int64) {
	u.PlusMinus = -1
	u.Unknown = stats.TooFew
	u.Requests = n
	if c.timings.spilled > 0 {
		return
	}
	group, groups := c.timings.sessionGroups()
	sections := c.timings.sequence().sections(u.latency, group, groups, nil)
	if sections == nil {
		return
	}
	u.Unknown = sections.Unknown()
	interval := sections.Intervals([]int64{u.perMille})[0]
	value := float64(sections.Value(u.perMille))
	switch {
	case interval != nil && value > 0:
		u.PlusMinus = max(float64(interval[1])-value, value-float64(interval[0])) / value
	case u.Unknown == "":
		u.Unknown = stats.TooFew
	}
}

// okRequests is how many requests ended ok.
func (c *Collector) okRequests() (n int64) {
	for i := range c.targets {
		n += c.targets[i].Outcomes[record.OK]
	}
	return n
}
