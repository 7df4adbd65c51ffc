package collect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// What proves that an action took effect. An effect of it comes within reachS after the end of its command, and was not
// there for as long before. Of effects that more load can have, too, none counts if the load rose.
const (
	reachS     = 60.0
	chance     = 1e-4 // that as many more requests fail though nothing changed
	loadS      = 10.0 // in which the load before and after the action is counted, at most
	leastLoadS = 1.0  // likewise, at least
	loadRise   = 1.2
	leastKnown = 50 // answers before an instance is a new one
)

// What TTFT p95 was before: the most in groups of successive requests, and a quarter more for chance. It is back if it
// is within that for calmGroups of them.
const (
	groupLeast   = 20 // requests
	groupsBefore = 20
	leastGroups  = 5
	bandMargin   = 1.25
	calmGroups   = 3
	bandS        = 60.0 // before the action
)

// refusedWords are the system's where nobody listens.
const refusedWords = "connection refused"

// had is what a request had of what it could have. That is hit tokens of those of an ideal cache, or 1 of 1 if it was
// good by the bounds of --goodput.
type had struct {
	atNS     int64
	part, of int64
}

// KeepHits lets the summary tell what actions cost in hits, and in requests within the bounds of --goodput. Call it
// before Add, of which it keeps 48 bytes each.
func (c *Collector) KeepHits() { c.hits = []had{} }

// NeverHeld notes tokens that a request sent then lacks, since no prompt had brought them yet or the cache was full.
func (c *Collector) NeverHeld(sentNS, tokens int64) {
	if c.hits != nil {
		c.hits = append(c.hits, had{sentNS, tokens, 0})
	}
}

func (c *Collector) addHit(r *record.Record) {
	if c.hits == nil {
		return
	}
	if at := max(r.SentNS, r.PlannedNS); len(c.slos) > 0 && at != record.None {
		missed := slices.ContainsFunc(c.slos, func(o metrics.SLO) bool { return !o.Met(r) })
		if !stopped(r.Outcome) || c.hasMissed(r) { // of others nobody knows whether they would have been good
			c.good = append(c.good, had{at, int64(number(r.Outcome == record.OK && !missed)), 1})
		}
	}
	if r.Outcome == record.OK && r.CachedTokens >= 0 && r.ExpectedCachedTokens > 0 {
		c.hits = append(c.hits, had{r.SentNS, r.CachedTokens, r.ExpectedCachedTokens})
	}
}

// hasMissed reports whether a request that was cut off would be beyond a bound even if it had ended well just then.
func (c *Collector) hasMissed(r *record.Record) bool {
	best := *r
	if best.FirstTokenNS == record.None {
		best.FirstTokenNS = r.EndNS()
	}
	best.LastTokenNS = r.EndNS()
	best.DoneNS = r.EndNS()
	return r.SentNS != record.None && slices.ContainsFunc(c.slos, func(o metrics.SLO) bool { return o.Exceeds(&best) })
}

// actions is the summary's actions with what became of them. It changes none of those that s has.
func (c *Collector) actions(s *metrics.Summary, run *sequence) []metrics.Action {
	if len(s.Actions) == 0 || run == nil {
		return s.Actions
	}
	out := slices.Clone(s.Actions)
	j := aftermath{c: c, servers: s.Servers, changes: s.TargetChanges, endS: s.Run.DurationS, cut: map[*timing]bool{}}
	for _, k := range run.all {
		if !stopped(k.outcome) {
			j.all = append(j.all, k)
		} else if k.sent {
			j.open = append(j.open, k)
		}
	}
	out = slices.DeleteFunc(out, func(a metrics.Action) bool { return !a.Began() })
	for i := range out {
		j.at(out, i, false)
		j.prove(out[:i])
	}
	for i := range out {
		j.at(out, i, true)
		j.count()
	}
	return append(out, s.Actions[len(out):]...) // those that never began are the last
}

// at turns to an action. What follows it ends with the next one, or with the next that landed.
func (j *aftermath) at(all []metrics.Action, i int, landed bool) {
	j.action = &all[i]
	j.fromS = all[i].Ran.StartedS
	j.toS = j.endS
	for k := range all[i+1:] {
		if next := &all[i+1+k]; next.Landed || !landed {
			j.toS = next.Ran.StartedS
			break
		}
	}
	j.reachS = min(j.toS, j.fromS+all[i].Ran.TookS+reachS)
}

// aftermath is what followed an action.
type aftermath struct {
	c       *Collector
	servers *metrics.Servers
	changes []scrape.Event // of the targets
	all     []*timing      // in order of sending
	open    []*timing      // that the end of the run cut off
	action  *metrics.Action
	// from its begin to that of the next, or the end; until when an effect may come
	fromS, toS, reachS float64
	calmS              float64          // since when earlier actions are over
	endS               float64          // of the run
	cut                map[*timing]bool // what actions cut off, though the last byte came before them
}

// sign is what may prove that an action took effect.
type sign struct {
	atS  float64
	text string
	soft bool // load may have that effect, too
}

// prove sets whether the action landed, after earlier ones.
func (j *aftermath) prove(earlier []metrics.Action) {
	a := j.action
	a.Landed = false
	a.LandedS = nil
	signs := slices.Concat(j.failures(), j.events(), j.newInstances(), j.silences())
	slices.SortStableFunc(signs, func(x, y sign) int { return cmp.Compare(x.atS, y.atS) })
	var proofs, doubted []sign
	for _, x := range signs {
		other := j.other(earlier, x.atS)
		switch {
		case other != nil:
			x.text += ", but that may come from the action at " + format.Seconds(other.BeganS())
			doubted = append(doubted, x)
		case x.soft && j.loadRise(x.atS) > loadRise:
			x.text += ", but more load can do that, too, and it rose"
			doubted = append(doubted, x)
		default:
			proofs = append(proofs, x)
		}
	}
	switch {
	case a.Check == metrics.CheckFailed:
		a.Proof = "its check did not succeed"
	case a.Check == metrics.CheckPassed:
		a.Proof = "its check succeeded"
		a.Landed = true
		a.LandedS = a.CheckS
	case len(proofs) > 0:
		a.Landed = true
	case !j.knowsBefore():
		a.Proof = "too little is known of the time before it; a check (expect) tells more"
	case len(doubted) > 0:
		a.Proof = doubted[0].text
	case a.Check == metrics.CheckedEarly:
		a.Proof = "its check succeeded before it, too, and nothing else shows an effect"
	case a.Check == metrics.CheckUnfinished:
		a.Proof = "its check had not succeeded when the run ended"
	default:
		a.Proof = "no target fails more than before, no server restarted or fell silent, no new one answered"
		if j.reachS < min(j.endS, j.fromS+a.Ran.TookS+reachS) {
			a.Proof += " before the next action"
		}
	}
	if a.Landed && len(proofs) > 0 {
		first := proofs[0].atS
		if a.LandedS != nil {
			first = min(first, *a.LandedS)
		}
		a.LandedS = &first
		a.Proof = strings.Join(format.Present(a.Proof, proofs[0].text), ", ")
	}
}

// other is an earlier action of which an effect at an instant may be, too, whether that one landed by another effect or
// not. One that comes much sooner after this action is this one's. It is nil if there is none.
func (j *aftermath) other(earlier []metrics.Action, atS float64) *metrics.Action {
	const sooner = 10 // times
	for i := range earlier {
		o := &earlier[i]
		sinceS := atS - o.Ran.StartedS
		if o.Check != metrics.CheckFailed && sinceS < o.Ran.TookS+reachS && sooner*(atS-j.fromS) > sinceS {
			return o
		}
	}
	return nil
}

// beforeS is since when as much time had passed before the action as is looked at after it.
func (j *aftermath) beforeS() float64 { return max(0, 2*j.fromS-j.reachS) }

// failures are places where more requests fail than before, from the action on and not earlier.
func (j *aftermath) failures() (signs []sign) {
	at := map[failingPlace][]*timing{}
	for _, k := range j.all {
		if endS := seconds(k.endNS); endS >= j.beforeS() && endS < j.reachS && k.target >= 0 {
			place := failingPlace{k.target, k.endpoint}
			at[place] = append(at[place], k)
		}
	}
	for place, list := range at {
		for _, soft := range []bool{false, true} {
			fails := func(k *timing) bool { return k.outcome != record.OK && (soft || j.c.cutOff(k)) }
			before := 0
			after := 0
			failed := 0
			failing := 0
			for _, k := range list {
				if seconds(k.endNS) < j.fromS {
					before++
					failed += number(fails(k))
				} else {
					after++
					failing += number(fails(k))
				}
			}
			if failing < leastOutage {
				continue
			}
			begin := worstFrom(list, fails, float64(failing)/float64(after)/2)
			// that as few of the failures, or fewer, fell before the action
			likely := stats.AtMost(int64(failed), int64(failed+failing), float64(before)/float64(before+after))
			if _, _, outage := worstStretch(list); likely > chance && !outage {
				continue
			}
			if atS, since := j.failedSince(list[begin:], fails); since {
				text := fmt.Sprintf("%s failed %d of %s", j.c.placeName(place), failing, format.Requests(after))
				signs = append(signs, sign{atS, text, soft})
				break
			}
		}
	}
	return signs
}

// failedSince reports whether a stretch of failures came with the action, and when the first did. Of an answer that was
// cut off only its last byte has an instant, which may be earlier.
func (j *aftermath) failedSince(stretch []*timing, fails func(*timing) bool) (atS float64, since bool) {
	var cut []*timing
	for _, k := range stretch {
		switch {
		case !fails(k):
		case seconds(k.endNS) >= j.fromS:
			for _, k := range cut {
				j.cut[k] = true
			}
			return seconds(k.endNS), true
		case !k.sent || k.outcome == record.HTTPError:
			return 0, false
		default:
			cut = append(cut, k)
		}
	}
	return 0, false
}

// worstFrom is where the stretch begins in which the most more fail than this share of the requests.
func worstFrom(list []*timing, fails func(*timing) bool, share float64) (from int) {
	sum := 0.0
	most := 0.0
	begin := 0
	for i, k := range list {
		if sum += float64(number(fails(k))) - share; sum <= 0 {
			sum = 0
			begin = i + 1
		}
		if sum > most {
			most = sum
			from = begin
		}
	}
	return from
}

// placeName names a target, and its address if it has several.
func (c *Collector) placeName(at failingPlace) string {
	name := c.urls[at.target]
	if address := c.timings.endpoints.of(at.endpoint); address != "" && !strings.HasSuffix(name, address) {
		name += " at " + address
	}
	return name
}

// cutOff reports whether a connection was refused or ended amid an answer, as no load does it.
func (c *Collector) cutOff(k *timing) bool {
	switch k.outcome {
	case record.Reset, record.Truncated:
		return true
	case record.ConnectError:
		return strings.Contains(c.timings.failures.of(k.failure), refusedWords)
	}
	return false
}

// events are what the servers' pages show that did not happen before. A page that is only slow may have too much to do.
func (j *aftermath) events() (signs []sign) {
	events := j.changes
	if j.servers != nil {
		events = slices.Concat(events, j.servers.Events)
	}
	happened := func(fromS, toS float64, e *scrape.Event) bool {
		return slices.ContainsFunc(events, func(o scrape.Event) bool {
			return o.Target == e.Target && o.What == e.What && o.AtS >= fromS && o.AtS < toS
		})
	}
	words := map[string]string{
		scrape.Restarted: "restarted",
		scrape.Silent:    "reports nothing any more",
		scrape.Answered:  "reports again",
		scrape.Joined:    "joined",
		scrape.Left:      "left",
	}
	for _, e := range events {
		if e.What != scrape.Wanted && e.AtS >= j.fromS && e.AtS < j.reachS && !happened(j.beforeS(), j.fromS, &e) {
			hard := slices.Contains([]string{scrape.Restarted, scrape.Joined, scrape.Left}, e.What) ||
				strings.Contains(e.Error, refusedWords)
			signs = append(signs, sign{e.AtS, e.Target + " " + words[e.What], !hard})
		}
	}
	return signs
}

// newInstances are those that never answered before.
func (j *aftermath) newInstances() (signs []sign) {
	firstS := map[int32]float64{}
	known := 0
	for _, k := range j.all {
		endS := seconds(k.endNS)
		if k.instance < 0 {
			continue
		}
		if at, seen := firstS[k.instance]; !seen || endS < at {
			firstS[k.instance] = endS
		}
		known += number(endS < j.fromS)
	}
	for instance, atS := range firstS {
		if known >= leastKnown && atS >= j.fromS && atS < j.reachS {
			signs = append(signs, sign{atS, j.c.timings.instances.of(instance) + " answered for the first time", true})
		}
	}
	return signs
}

// silences are places that said nothing for far longer than ever before, while requests waited for them.
func (j *aftermath) silences() (signs []sign) {
	const least, longer = 1.0, 5.0 // seconds, and times the longest before
	heard := map[failingPlace][]*timing{}
	for _, k := range j.all {
		if at := (failingPlace{k.target, k.endpoint}); k.sent && k.target >= 0 && seconds(k.atNS) < j.reachS {
			heard[at] = append(heard[at], k)
		}
	}
	for place, list := range heard {
		var instants []float64
		for _, k := range list {
			if k.outcome == record.OK {
				first, last := k.chunksNS()
				instants = append(instants, seconds(first), seconds(last))
			}
		}
		slices.Sort(instants)
		instants = append(instants, j.toS)
		usual := 0.0
		known := 0
		for i, from := range instants[:len(instants)-1] {
			since := from
			if instants[i+1] >= j.fromS { // what was silent before is not of the action
				since = max(from, j.fromS)
			}
			gap := instants[i+1] - since
			switch {
			case instants[i+1] < j.fromS:
				usual = max(usual, gap)
			case from < j.reachS && gap > max(least, longer*usual) && known >= leastKnown &&
				slices.ContainsFunc(list, func(k *timing) bool {
					return seconds(k.atNS) < since+gap/2 && seconds(k.endNS) >= since+gap/2
				}):
				text := j.c.placeName(place) + " said nothing for " + format.Seconds(gap)
				signs = append(signs, sign{since, text, true})
			}
			known++
		}
	}
	return signs
}

// spanS is for how long the load before is counted, and knowsBefore whether that is long enough.
func (j *aftermath) spanS() float64    { return min(loadS, j.fromS) }
func (j *aftermath) knowsBefore() bool { return j.spanS() >= leastLoadS }

// loadRise is how many times as much was sent at some time from the action to an instant as just before the action. It
// is 1 if chance may explain it.
func (j *aftermath) loadRise(untilS float64) float64 {
	if !j.knowsBefore() {
		return math.Inf(1)
	}
	span := j.spanS()
	sent := func(fromS float64) (n float64) {
		for _, k := range j.all {
			n += float64(number(seconds(k.atNS) >= fromS && seconds(k.atNS) < fromS+span))
		}
		return n
	}
	before := sent(j.fromS - span)
	most := 0.0
	for at := j.fromS; at <= untilS; at += span / 2 {
		most = max(most, sent(at))
	}
	if most-before < 3*math.Sqrt(most+before) {
		return 1
	}
	return most / max(1, before)
}

// count sets what the action cost.
func (j *aftermath) count() {
	cost := &metrics.ActionCost{UntilS: j.toS}
	j.action.Cost = cost
	sinceS := j.fromS
	if j.action.LandedS != nil {
		sinceS = *j.action.LandedS
	}
	var before, after []*timing // sent
	for _, k := range j.all {
		at := seconds(k.atNS)
		failed := k.outcome != record.OK
		switch {
		case failed && at < j.fromS && (seconds(k.endNS) >= j.fromS || j.cut[k]):
			cost.Failed++
			continue
		case failed && at >= j.fromS && at < j.toS:
			cost.Failed++
		}
		if at >= max(j.calmS, j.fromS-bandS) && at < j.fromS {
			if failed || seconds(k.atNS+endlessTTFT(k)) < j.fromS { // else it waited when the action came
				before = append(before, k)
			}
		} else if at >= sinceS && at < j.toS {
			after = append(after, k)
		}
	}
	for _, k := range j.open {
		if at := seconds(k.atNS); at >= sinceS && at < j.toS {
			after = append(after, k)
		}
	}
	slices.SortStableFunc(after, func(a, b *timing) int { return cmp.Compare(a.atNS, b.atNS) })
	cost.Requests = int64(len(after))
	failed := 0
	for _, k := range before {
		failed += number(k.outcome != record.OK)
	}
	cost.FailedShare = float64(failed) / float64(max(1, len(before)))
	cost.HitsLost = j.lost(j.c.hits, sinceS)
	cost.SLODebt = j.lost(j.c.good, j.fromS)
	j.band(cost, before, after)
	if cost.BandMS != nil && (cost.Left == nil || *cost.Left) {
		j.calmS = j.toS
	}
	if cost.BackS != nil {
		j.calmS = *cost.BackS
	}
}

// lost is how much less requests had from an instant on than they would have had with the share before. It is nil if
// they could have had nothing before or after.
func (j *aftermath) lost(all []had, sinceS float64) *float64 {
	var part, of [2]float64 // before and after
	for _, h := range all {
		at := seconds(h.atNS)
		i := number(at >= sinceS)
		if at >= j.calmS && at < j.fromS || i > 0 && at < j.toS {
			part[i] += float64(h.part)
			of[i] += float64(h.of)
		}
	}
	if of[0] == 0 || of[1] == 0 {
		return nil
	}
	return new(max(0, part[0]/of[0]*of[1]-part[1]))
}

// band tells when TTFT p95 left its band, and was back.
func (j *aftermath) band(cost *metrics.ActionCost, before, after []*timing) {
	size := max(groupLeast, len(before)/groupsBefore)
	mostNS := int64(0)
	earlier := slices.Collect(slices.Chunk(before[len(before)%size:], size))
	for _, group := range earlier {
		mostNS = max(mostNS, ttftP95(group))
	}
	if len(earlier) < leastGroups || mostNS == math.MaxInt64 {
		return
	}
	limitNS := int64(bandMargin * float64(mostNS))
	cost.BandMS = new(float64(limitNS) / 1e6)
	later := slices.Collect(slices.Chunk(after[:len(after)-len(after)%size], size))
	beyond := func(i int) bool { return ttftP95(later[i]) > limitNS }
	left := -1
	back := -1
	calm := 0
	for i := range later {
		switch {
		case left < 0 && beyond(i) && (i+1 < len(later) && beyond(i+1) || ttftRank(later[i], 50) > limitNS):
			left = i
		case left >= 0 && beyond(i):
			calm = 0
		case left >= 0:
			calm++
		}
		if calm == calmGroups {
			back = i + 1 - calmGroups
			break
		}
	}
	if left < 0 && (len(later) < calmGroups || beyond(len(later)-1)) { // nobody knows
		return
	}
	if cost.Left = new(left >= 0); !*cost.Left {
		return
	}
	untilS := j.toS
	if back >= 0 {
		untilS = seconds(later[back][0].atNS)
		cost.BackS = &untilS
	}
	for _, k := range after {
		if k.outcome == record.OK && seconds(k.atNS) < untilS && endlessTTFT(k) > limitNS {
			cost.Late++
		}
	}
}

func ttftP95(group []*timing) int64 { return ttftRank(group, 95) }

// ttftRank is a percentile of the TTFTs of a group, in ns.
func ttftRank(group []*timing, percent int) int64 {
	values := make([]int64, len(group))
	for i, k := range group {
		values[i] = endlessTTFT(k)
	}
	slices.Sort(values)
	return values[(percent*len(values)+99)/100-1]
}

// endlessTTFT is a request's TTFT, or E2E if it has none. That of one that failed is without end; one that was cut off
// before it waited for so long at least.
func endlessTTFT(k *timing) int64 {
	switch ttft := k.latency(metrics.TTFT); {
	case ttft != record.None:
		return ttft
	case stopped(k.outcome):
		return k.endNS - k.atNS
	case k.outcome != record.OK:
		return math.MaxInt64
	}
	return k.latency(metrics.E2E)
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// mostReplicaNotes bounds the targets that notes name since they came late.
const mostReplicaNotes = 4

// replicaNotes say of targets that were wanted how long the run had fewer.
func replicaNotes(s *metrics.Summary) (out metrics.Notes) {
	for i, e := range s.TargetChanges {
		if e.What != scrape.Wanted || len(out) == mostReplicaNotes {
			continue
		}
		since := fmt.Sprintf("from %s on %d targets were wanted, and %d took part: %s ",
			format.Seconds(e.AtS), e.Wanted, e.Had, e.Target)
		joined := slices.IndexFunc(s.TargetChanges[i:], func(later scrape.Event) bool {
			return later.What == scrape.Joined && later.Target == e.Target
		})
		if joined < 0 {
			out.Add(true, "never_joined", "%snever joined", since)
			continue
		}
		out.Add(true, "joined_late", "%sjoined %s later", since, format.Seconds(s.TargetChanges[i+joined].AtS-e.AtS))
	}
	return out
}
