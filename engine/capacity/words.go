package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// rung is a load with its probes that tell of the servers.
type rung struct {
	load     float64
	requests int64
	probes   []*Outcome
	calm     []*Outcome // those that held, and did not fall behind
	held     bool       // by enough requests, and no probe missed
	missed   bool
}

// ladder are the loads of a page, the easiest first, and what stands between those that held and those that are too
// much. Where loads contradict each other, as few as can be are on the wrong side.
type ladder struct {
	*Page
	rungs  []rung
	held   *rung // the hardest below that place; nil if none did
	missed *rung // the easiest above it; nil if none was
}

// mayFail is the share of requests that may fail at a load that held, where no objective says so.
const mayFail = 0.01

// missed tells whether more requests of a probe were beyond an objective than it allows, surely or not. Without
// objectives it tells whether the servers fell behind or failed.
func (p *Page) missed(o *Outcome) bool {
	if len(p.Objectives) == 0 {
		return o.FallsBehind || o.Numbers[ErrorRate] > mayFail
	}
	return o.Verdict == Breaks || o.Verdict == Unsure && o.Limiter != ""
}

// ladder sorts the loads. No load as hard as a confirmation that told too little is known to hold.
func (p *Page) ladder() *ladder {
	l := &ladder{Page: p}
	withdrawn := math.Inf(1)
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		if o.Client != "" {
			continue
		}
		at := slices.IndexFunc(l.rungs, func(r rung) bool { return r.load == o.Load })
		if at < 0 {
			at = len(l.rungs)
			l.rungs = append(l.rungs, rung{load: o.Load})
		}
		r := &l.rungs[at]
		r.probes = append(r.probes, o)
		r.requests += o.Requests
		r.missed = r.missed || p.missed(o)
		if !o.FallsBehind && (o.Verdict == Holds || len(p.Objectives) == 0 && o.Measured()) {
			r.calm = append(r.calm, o)
		}
		if o.Confirm {
			withdrawn = math.Inf(1)
			if o.Verdict != Holds {
				withdrawn = p.hardness(o.Load)
			}
		}
	}
	slices.SortFunc(l.rungs, func(a, b rung) int {
		return cmp.Compare(p.hardness(a.load), p.hardness(b.load))
	})
	wrong := 0 // on the wrong side of a place
	for i := range l.rungs {
		r := &l.rungs[i]
		r.held = !p.few(r.calm...) && !r.missed && p.hardness(r.load) < withdrawn
		if r.held {
			wrong++
		}
	}
	fewest := wrong
	place := 0
	for i, r := range l.rungs {
		if r.held {
			wrong--
		} else if r.missed {
			wrong++
		}
		if wrong < fewest {
			fewest = wrong
			place = i + 1
		}
	}
	for i := range l.rungs {
		r := &l.rungs[i]
		switch {
		case r.held && i < place:
			l.held = r
		case r.missed && i >= place && l.missed == nil:
			l.missed = r
		}
	}
	return l
}

// hardness is how hard a load is beside others.
func (p *Page) hardness(load float64) float64 {
	if p.Falling {
		return -load
	}
	return load
}

// hardly is said of what the load does not explain.
const hardly = ": load is hardly the cause"

// Headline is what was found, in some 20 words: first what held, then what was missed.
func (p *Page) Headline() string {
	l := p.ladder()
	failed, mostly := l.failures(p.Load)
	free := len(p.Objectives) == 0
	switch {
	case len(p.Outcomes) == 0:
		return "Nothing was measured"
	case len(l.rungs) == 0:
		at := p.Load(p.Outcomes[0].Load)
		return "The client was the bottleneck at " + at + ": nothing is known of the servers"
	case mostly, l.held == nil && l.missed != nil && l.missed.failed():
		return format.Capitalised(failed) + l.failAlike()
	case l.held == nil && l.missed == nil:
		return l.untold()
	case l.held == nil && free:
		return "The servers" + strings.TrimPrefix(l.missedWords(p.Load), "they")
	case l.held == nil && l.disputed() != "":
		return "Probes contradict each other: " + l.missedWords(p.Load)
	case l.held == nil:
		return l.neverHeld()
	case free && l.missed == nil && l.held.requests < fewRequests/4:
		every := func(*rung) bool { return true }
		return "Too few requests to tell: " + l.sizes(every) + " " + l.where(every, p.Load)
	}
	words := l.heldWords() + l.confidence()
	switch last := l.rungs[len(l.rungs)-1].load; {
	case l.disputed() != "":
		return words + "; probes " + l.disputed() + " contradict each other"
	case l.missed != nil:
		return words + "; " + l.missedWords(p.short)
	case last != l.held.load:
		return words + "; too little is known of " + p.short(last)
	case strings.Contains(words, "stopped"):
		return words + "; tried up to " + p.Number(last)
	case len(l.rungs) == 1:
		words += ", the only load tried"
	default:
		words += ", the hardest load tried"
	}
	if ttft, known := l.held.probes[0].Numbers["ttft.p95"]; known && free {
		words += "; TTFT p95 " + format.Milliseconds(ttft)
	}
	return words
}

// heldWords say up to which load all was well: of a closed loop without objectives, how far its throughput grows.
func (l *ladder) heldWords() string {
	to := " up to "
	if l.Falling {
		to = " down to "
	}
	if l.held == &l.rungs[0] {
		to = " at "
	}
	to += l.Load(l.held.load)
	switch free := len(l.Objectives) == 0; {
	case !free && l.missed == nil:
		return "Held " + l.objectiveWords() + to
	case !free:
		return "Held" + to
	case !l.Whole || l.Falling:
		return "The servers kept pace" + to
	}
	const enough = 0.95 // of the most, beyond which it grows no longer
	most := 0.0
	rate := func(r rung) float64 { return r.probes[0].Numbers[tokensPerS] }
	for _, r := range l.rungs {
		if r.held {
			most = max(most, rate(r))
		}
	}
	knee := slices.IndexFunc(l.rungs, func(r rung) bool { return r.held && rate(r) >= enough*most })
	words := format.Rate(rate(l.rungs[knee])) + " output tokens/s"
	switch {
	case len(l.rungs) == 1:
		return words + to
	case &l.rungs[knee] == l.held:
		return "Throughput grew to " + words + " at " + l.Load(l.held.load)
	}
	return "Throughput stopped growing at " + l.Load(l.rungs[knee].load) + ", with " + words
}

// objectiveWords are all objectives, or how many they are.
func (p *Page) objectiveWords() string {
	var all []string
	for i := range p.Objectives {
		all = append(all, p.Objectives[i].plain())
	}
	if len(all) > 2 {
		return fmt.Sprintf("all %d objectives", len(all))
	}
	return strings.Join(all, " and ")
}

func isMissed(r *rung) bool { return r.missed }

// missedWords say what was missed, and where.
func (l *ladder) missedWords(print func(float64) string) (words string) {
	switch {
	case l.missed.failed():
		words, _ = l.failures(print)
	case len(l.Objectives) == 0:
		words = "they fell behind " + l.where(isMissed, print)
	default:
		worst, _ := l.worst()
		words = "missed " + worst.plain()
		if _, instance, has := strings.Cut(l.Limiter(), " on "); has {
			words += " on " + instance
		}
		words += " " + l.where(isMissed, print)
	}
	if at := l.where(l.contradicts, print); at != "" {
		words += ", yet held " + at
	}
	return words
}

// failed tells whether failures were what a load missed.
func (r *rung) failed() bool {
	return slices.ContainsFunc(r.probes, func(o *Outcome) bool {
		return strings.Contains(o.Limiter, failures) || o.Verdict == "" && o.Numbers[ErrorRate] > mayFail
	})
}

// worst is the objective that was missed by most, and the share of requests beyond it.
func (l *ladder) worst() (worst *Objective, share float64) {
	worst = &l.Objectives[0]
	for j, beyond := range l.missed.probes[0].Beyond {
		if o := &l.Objectives[j]; beyond/o.Allowed > share/worst.Allowed {
			worst = o
			share = beyond
		}
	}
	return worst, share
}

// neverHeld says what was missed where no load held. Servers that keep pace have a request now and then that no other
// delays. So the load is hardly why if each is beyond a limit.
func (l *ladder) neverHeld() string {
	if at := slices.IndexFunc(l.rungs, func(r rung) bool { return r.missed }); at > 0 {
		easier := &l.rungs[at-1]
		return fmt.Sprintf("%s; no objective was missed at %s, in only %s", format.Capitalised(l.missedWords(l.Load)),
			l.short(easier.load), format.Requests(easier.requests))
	}
	worst, share := l.worst()
	if worst.LimitNS == 0 || share < 1 {
		return format.Capitalised(l.missedWords(l.Load))
	}
	words := fmt.Sprintf("Every request exceeded a %s of %s %s", worst.Label(), worst.bound(),
		l.where(isMissed, l.Load))
	if !l.missed.probes[0].FallsBehind && !l.Falling && (!l.Whole || l.missed.load == 1) {
		words += hardly
	}
	return words
}

// failAlike says that the load is hardly why requests fail; "" if it may be. An overloaded server answers as many as it
// can, so of twice the load more than half fail.
func (l *ladder) failAlike() string {
	const few = 1. / 3 // twice the load would fail twice as often, and more
	least, worst := failing(l.Outcomes)
	most := worst.Numbers[ErrorRate]
	ratio := l.rungs[0].load / l.rungs[len(l.rungs)-1].load
	if least == 1 || least >= most/2 && most < few && max(ratio, 1/ratio) >= 2 {
		return hardly
	}
	return ""
}

// untold says why no load is known to hold or not.
func (l *ladder) untold() string {
	var requests, enough int64
	for i := range l.Outcomes {
		requests = max(requests, l.Outcomes[i].Requests)
	}
	for i := range l.Objectives {
		enough = max(enough, l.Objectives[i].LeastRequests())
	}
	switch last := l.rungs[len(l.rungs)-1].probes[0]; {
	case requests == 0:
		why, _, _ := strings.Cut(last.Why, ": ")
		return "Nothing was measured: " + strings.ToLower(why[:min(1, len(why))]) + why[min(1, len(why)):]
	case requests < enough:
		return fmt.Sprintf("Too few requests to tell: at most %s a load, and %s would do; no objective was missed",
			format.Count(requests), format.Count(enough))
	default:
		return "Too little was seen to tell whether " + l.Load(last.Load) + " holds"
	}
}

// where lists the loads that are as is says. Of those at the hard end it has the first alone.
func (l *ladder) where(is func(*rung) bool, print func(float64) string) string {
	n := len(l.rungs)
	end := n // from here on all are
	for end > 0 && is(&l.rungs[end-1]) {
		end--
	}
	if end == 0 && n > 1 {
		ends := []float64{l.rungs[0].load, l.rungs[n-1].load}
		slices.Sort(ends)
		return "at every load from " + l.Number(ends[0]) + " to " + print(ends[1])
	}
	var loads []float64
	for i := range l.rungs[:min(n, end+1)] {
		if i == end || is(&l.rungs[i]) {
			loads = append(loads, l.rungs[i].load)
		}
	}
	if len(loads) == 0 {
		return ""
	}
	words := "at "
	for _, load := range loads[:len(loads)-1] {
		words += l.Number(load) + ", "
	}
	words += print(loads[len(loads)-1])
	switch further := end < n-1; {
	case further && l.Falling:
		words += " and below"
	case further:
		words += " and above"
	}
	return words
}

// short is a load behind another one that has its unit.
func (p *Page) short(load float64) string { return p.signed(p.Number(load)) }

// signed is the number of a load, with the sign of a multiple.
func (p *Page) signed(number string) string {
	if strings.HasPrefix(p.Unit, "×") {
		return number + " ×"
	}
	return number
}

// failures say how many requests failed, where about as many did as at worst, and how; "" if none failed. mostly: at
// each load most did.
func (l *ladder) failures(print func(float64) string) (words string, mostly bool) {
	least, worst := failing(l.Outcomes)
	most := worst.Numbers[ErrorRate]
	if most == 0 {
		return "", false
	}
	fewest := most
	at := l.where(func(r *rung) (is bool) {
		for _, o := range r.probes {
			if share := o.Numbers[ErrorRate]; share >= most/2 {
				is = true
				fewest = min(fewest, share)
			}
		}
		return is
	}, print)
	from := format.PercentTo(fewest, 3)
	words = format.PercentTo(most, 3) + " of the requests"
	if fewest == 1 {
		words = "every request"
	} else if !strings.HasPrefix(words, from) {
		words = strings.TrimSuffix(from, " %") + " to " + words
	}
	by, _, _ := strings.Cut(strings.ReplaceAll(worst.FailedBy, "_", " "), ` "`) // the servers' own words may be long
	return strings.Join(format.Present(words+" failed "+at, by), ", "), least >= 0.5
}

// failing are the least share of requests that failed, and the load of which most did.
func failing(all []Outcome) (least float64, worst *Outcome) {
	least = 1
	worst = &Outcome{}
	for i := range all {
		share := all[i].Numbers[ErrorRate]
		least = min(least, share)
		if share > worst.Numbers[ErrorRate] {
			worst = &all[i]
		}
	}
	return least, worst
}

// fewRequests are so few that another run may give quite other numbers.
const fewRequests = 100

// Cautions are sentences about what makes the headline less sure, the gravest first.
func (p *Page) Cautions() (all []string) {
	l := p.ladder()
	title := p.Headline()
	failed, _ := l.failures(p.Load)
	_, worst := failing(p.Outcomes)
	switch {
	case failed == "" || !worst.Measured():
	case !strings.Contains(title, "failed"):
		all = append(all, format.Capitalised(failed)+".")
	case worst.FailedBy != "":
		all = append(all, "The failures: "+worst.FailedBy+".")
	}
	if strings.HasPrefix(title, "Every") && strings.HasSuffix(title, hardly) && failed == "" {
		all = append(all, "See what one request alone takes, with --over concurrency --range 1.")
	}
	behind := func(r *rung) bool {
		return !r.missed && slices.ContainsFunc(r.probes, func(o *Outcome) bool { return o.FallsBehind })
	}
	at := l.where(behind, p.Load)
	if at != "" || strings.Contains(title, "fell behind") {
		words := strings.TrimSpace("The servers fell behind " + at)
		all = append(all, words+": requests in flight became more and more, and fewer ended than were sent.")
	}
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		switch told := strings.Contains(p.Answer.Why, cmp.Or(o.Client, o.Why)); {
		case told:
		case o.Client != "":
			all = append(all, "The client was the bottleneck at "+p.Load(o.Load)+": "+o.Client+".")
		case !o.Measured():
			all = append(all, "At "+p.Load(o.Load)+": "+o.Why)
		}
	}
	if l.disputed() != "" {
		words := "That probes contradict each other"
		if l.held != nil && l.missed != nil {
			words = format.Capitalised(l.missedWords(p.Load)) + ": that"
		}
		all = append(all, words+" is chance, or longer probes saw more, or the servers changed meanwhile.")
	}
	few := func(r *rung) bool {
		return r.requests > 0 && r.requests < fewRequests && (len(p.Objectives) == 0 || r == l.held)
	}
	i := slices.IndexFunc(p.Outcomes, func(o Outcome) bool { return o.Limited != "" })
	if i >= 0 && p.Answer.Doubt == "" {
		all = append(all, p.Outcomes[i].doubt())
	}
	if at := l.where(few, p.Load); at != "" {
		all = append(all, "Only "+l.sizes(few)+" "+at+": another run may give quite other numbers.")
	}
	return all
}

// disputed are the loads from the easiest that was missed to the hardest that held all the same; "" if none did.
func (l *ladder) disputed() string {
	hardest := -1
	for i := range l.rungs {
		if l.contradicts(&l.rungs[i]) {
			hardest = i
		}
	}
	easiest := slices.IndexFunc(l.rungs, func(r rung) bool {
		return r.missed && (l.missed == nil || r.load == l.missed.load)
	})
	switch {
	case hardest < 0 || easiest < 0:
		return ""
	case easiest >= hardest:
		return "at " + l.short(l.rungs[hardest].load)
	}
	return "from " + l.Number(l.rungs[easiest].load) + " to " + l.short(l.rungs[hardest].load)
}

// contradicts tells whether a load held by some probes, though others or an easier load were missed. Near its edge a
// search is to have both of one load.
func (l *ladder) contradicts(r *rung) bool {
	if len(l.Objectives) == 0 || l.few(r.calm...) || r.missed && !l.Sweep {
		return false
	}
	return !r.held || l.missed != nil && l.hardness(r.load) > l.hardness(l.missed.load)
}

// sizes are how many requests those loads had that are as is says, from the fewest to the most; "" if none is.
func (l *ladder) sizes(is func(*rung) bool) string {
	var sizes []int64
	for i := range l.rungs {
		if is(&l.rungs[i]) {
			sizes = append(sizes, l.rungs[i].requests)
		}
	}
	if len(sizes) == 0 {
		return ""
	}
	words := format.Requests(slices.Max(sizes))
	if least := slices.Min(sizes); least < slices.Max(sizes) {
		words = format.Count(least) + " to " + words
	}
	return words
}

// Sure says how sure the answer is: its estimate, its interval, and how long the longest probe held.
func (p *Page) Sure() string {
	a := &p.Answer
	l := p.ladder()
	var words []string
	low, estimate, high := l.interval()
	if estimate > 0 {
		words = append(words, "estimate "+format.Number(estimate, 2))
	}
	if low > 0 {
		unit, _, _ := strings.Cut(p.Unit, " the ")
		words = append(words, "95 % interval "+p.rounded(low)+" to "+p.rounded(high)+" "+unit)
	}
	if a.HeldS > 0 {
		words = append(words, "held for "+format.Span(a.HeldS)+" at "+p.short(a.HeldAt)+", and not tried for longer")
	} else if l.held != nil {
		words = append(words, "no longer probe confirmed what held")
	}
	words = append(words, format.Many(a.Probes, "probe"), format.Span(a.SpentS))
	return format.Capitalised(strings.Join(words, "; "))
}

// rounded is a load to two digits.
func (p *Page) rounded(load float64) string {
	if p.Whole {
		return p.Number(load)
	}
	return format.Number(load, 2)
}

// confidence is what the interval says of a load that held in a probe, but is harder than its easy end.
func (l *ladder) confidence() string {
	sure, _, high := l.interval()
	if l.Falling {
		sure = high
	}
	if sure == 0 || l.hardness(sure) >= l.hardness(l.held.load) {
		return ""
	}
	return ", " + l.signed(l.rounded(sure)) + " with 95 % confidence"
}

// interval is that of the answer and its estimate. It ends at the easiest load that was missed, or at
// which the servers fell behind. An estimate that does not lie above what held and below that is left out. What is not
// known is 0.
func (l *ladder) interval() (low, estimate, high float64) {
	a := &l.Answer
	if a.High == nil || a.Low == 0 {
		return 0, 0, 0
	}
	high = *a.High
	for _, o := range l.Outcomes {
		if r := l.missed; !l.Falling && (o.FallsBehind || r != nil && o.Load == r.load) {
			high = max(a.Low, min(high, o.Load))
		}
	}
	estimate, _ = strconv.ParseFloat(strconv.FormatFloat(a.Load, 'g', 2, 64), 64)
	if l.Whole || l.held == nil || estimate <= l.held.load || estimate >= high {
		estimate = 0
	}
	low = a.Low
	if digit := math.Pow(10, math.Floor(math.Log10(low))-1); !l.Whole { // to two digits, rounded down
		low = math.Floor(low/digit*(1+1e-9)) * digit
	}
	return low, estimate, high
}

// Limiter is what the easiest load missed that was too much, such as: TTFT on instance 2; "" if nothing broke.
func (p *Page) Limiter() string {
	if l := p.ladder(); l.missed != nil {
		for _, o := range l.missed.probes {
			if o.Limiter != "" {
				return o.Limiter
			}
		}
	}
	return p.Answer.Limits
}
