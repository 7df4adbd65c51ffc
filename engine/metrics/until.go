package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Until is how well a percentile is known that ends the run when it is known well enough.
type Until struct {
	Text      string  `json:"text"`       // as given, such as ttft.p99±5%
	Metric    string  `json:"metric"`     // the percentile, such as ttft.p99
	Within    float64 `json:"within"`     // how far the ends of the interval may be from the percentile, as a share of it
	PlusMinus float64 `json:"plus_minus"` // how far they are; -1 = there is no interval
	Reached   bool    `json:"reached"`    // that was near enough at a look, which ended the run
	Requests  int64   `json:"requests"`   // that the latest look saw; 0 = none came
	// why the run has no interval: few, dependent, conversations or at_once; "" if it has
	Unknown stats.Unknown `json:"unknown"`
}

// Precision ends a run when a percentile is known well enough. It looks at few moments, each after twice as many
// requests as the one before: whoever stops at the first narrow interval stops where chance made it too narrow. Make it
// with ParseUntil. It belongs to one goroutine.
type Precision struct {
	Until

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
	name, _, err := FindQuantity(strings.TrimSpace(percentile))
	if err != nil {
		return nil, err
	}
	u := &Precision{Until: Until{Text: text, PlusMinus: -1, Metric: name}}
	key := ""
	key, u.perMille = PercentileOf(name)
	u.latency = FindLatency(key)
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
	probe := timing{sent: true}
	return probe.of(latency) != record.None
}

// Look reports whether the run may end: c has as many requests as the next look needs, and its interval is narrow
// enough.
func (u *Precision) Look(c *Collector) bool {
	if n := c.okRequests(); n >= u.next {
		for u.next <= n {
			u.next *= 2
		}
		u.measure(c, n)
		u.Reached = u.PlusMinus >= 0 && u.PlusMinus <= u.Within
	}
	return u.Reached
}

// End measures all of the run, which is over. What was in flight at the last look may have moved the interval.
func (u *Precision) End(c *Collector) { u.measure(c, c.okRequests()) }

func (u *Precision) measure(c *Collector, n int64) {
	u.PlusMinus, u.Unknown, u.Requests = -1, stats.TooFew, n
	if c.timings.spilled > 0 {
		return
	}
	group, groups := c.timings.sessionGroups()
	sections := c.timings.sections(u.latency, c.timings.sectionsOf(), group, groups)
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

// Progress is how well the percentile was known at the latest look; "" before it.
func (u *Until) Progress() string {
	switch {
	case u.Requests == 0:
		return ""
	case u.PlusMinus < 0:
		return u.Text + ": unknown so far"
	}
	return fmt.Sprintf("%s ±%s, until ±%s", u.Metric, format.Percent(u.PlusMinus), format.Percent(u.Within))
}

// Words says how the run came out.
func (u *Until) Words() string {
	finding := u.Finding()
	words := "after " + format.Many(u.Requests, "request") + " " + finding[0]
	if len(finding) > 1 {
		words += ": " + strings.Join(finding[1:], "; ")
	}
	return words
}

// Finding says how well the percentile is known, and then why it is not known better, or what would tell.
func (u *Until) Finding() []string {
	switch {
	case u.Unknown == stats.Dependent:
		return []string{
			u.Metric + " is not known",
			"requests depend on each other for longer than a part of the run",
			"only a longer run can tell",
		}
	case u.Unknown == stats.FewGroups:
		return []string{u.Metric + " is not known", "there are too few conversations"}
	case u.PlusMinus < 0:
		return []string{u.Metric + " is not known", "too few requests, or all at once"}
	}
	known := u.Metric + " is known within ±" + format.Percent(u.PlusMinus)
	if u.PlusMinus <= u.Within {
		return []string{known}
	}
	known += ", not ±" + format.Percent(u.Within)
	if u.Reached {
		return []string{known, "it was at the last look, before the requests in flight had ended"}
	}
	ratio := u.PlusMinus / u.Within
	need := format.Many(int64(math.Ceil(float64(u.Requests)*ratio*ratio)), "request")
	return []string{known, "it may need about " + need + " like these"}
}
