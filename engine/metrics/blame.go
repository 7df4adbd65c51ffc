package metrics

const (
	// blameMost of the late requests must a cause be able to explain before it is named.
	blameMost = 2.0 / 3
	// blameLift is how many times as often it must have met them as the punctual ones.
	blameLift = 2
	// blameHalf of what it is to explain must a cause have taken: of a request's lateness, for stolen time comes in ticks and
	// intervals have edges; of the time of the late requests, for these make those behind them late; of the lag of reads.
	blameHalf = 0.5
	// blameAll of the punctual requests met what says nothing: on many cores some time is always stolen.
	blameAll = 0.95
	// blameTail of the time, taken from the client, may show at the 99th percentile.
	blameTail = 0.01
	// blameSecond is the share of a second that, stolen, is worth a note in a run that lost little in all.
	blameSecond = 0.1
)

// evidence is what there is against a cause.
type evidence struct {
	share   float64  // of the time that it could have taken; 0 where unknown
	overlap *Overlap // nil where unknown
}

func evidenceOf(s *Summary) [Causes]evidence {
	c, seconds, late := &s.Client, s.Run.DurationS, s.Client.Late
	if late == nil {
		late = new(Late)
	}
	return [Causes]evidence{
		Stolen:    {orZero(c.StolenShare), late.Stolen},
		Throttled: {min(1, shareOf(c.ThrottledS, seconds)), late.Throttled}, // counted on the cores that it used, which may be one
		Waited:    {shareOf(c.LaneRunQueueS, seconds*float64(max(1, c.Lanes))), late.Waited},
	}
}

// blamedForDrift lists what made requests late: the causes that can explain most of them and met far fewer others. Where
// none did, it is those that can explain most of them, met them like the others, though not all of these, but took a share of
// the time that can make so many late.
func blamedForDrift(s *Summary) (named []Cause) {
	late := s.Client.Late
	if late == nil || late.Requests == 0 {
		return nil
	}
	all := evidenceOf(s)
	var most []Cause
	for c, e := range all {
		if e.overlap != nil && float64(e.overlap.Requests) >= blameMost*float64(late.Requests) {
			most = append(most, Cause(c))
		}
	}
	for _, c := range most {
		o := all[c].overlap
		if o.Others != nil && float64(o.Requests) >= blameLift**o.Others*float64(late.Requests) {
			named = append(named, c)
		}
	}
	if len(named) > 0 {
		return named
	}
	for _, c := range most {
		others := all[c].overlap.Others
		if (others == nil || *others <= blameAll) && all[c].share*float64(s.Requests.Sent) >= blameHalf*float64(late.Requests) {
			named = append(named, c)
		}
	}
	return named
}

// blamedForReads lists what may have made one read of a hundred late. Single reads are not joined with what the machine did
// at their time, so it goes by amounts: a cause must have taken a hundredth of the time, and the threads' waits for a core
// must be about as long as all that reads were late.
func blamedForReads(s *Summary) (named []Cause) {
	for c, e := range evidenceOf(s) {
		enough := e.share >= blameTail
		if Cause(c) == Waited {
			lag := lagS(s)
			enough = lag > 0 && orZero(s.Client.RunQueueS) >= blameHalf*lag
		}
		if enough {
			named = append(named, Cause(c))
		}
	}
	return named
}

// lagS is how late all reads were together, in seconds; 0 where unknown.
func lagS(s *Summary) float64 {
	if s.Client.ReceiveLagUS == nil || s.Client.Stamps == nil {
		return 0
	}
	return s.Client.ReceiveLagUS.Mean / 1e6 * float64(s.Client.Stamps.Reads)
}

// capped tells whether a cap held back as many requests, and for as long, as the tail of drift has.
func capped(s *Summary) bool {
	c := s.Cap
	return c != nil && c.HeldMS != nil && float64(c.Held) >= blameTail*float64(s.Requests.Sent) && c.HeldMS.Max*1e3 >= s.DriftUS.P99/2
}

// builtLate tells whether enough requests were not built in time to be most of the late ones.
func builtLate(s *Summary) bool {
	b, late := s.BuildAhead, blameTail*float64(s.Requests.Sent)
	if s.Client.Late != nil {
		late = blameMost * float64(s.Client.Late.Requests)
	}
	return b != nil && b.Late > 0 && float64(b.Late) >= late
}

// noted lists what took so much that it is worth a note.
func noted(s *Summary) (causes []Cause) {
	if orZero(s.Client.StolenShare) > blameTail || orZero(s.Client.StolenWorst) > blameSecond {
		causes = append(causes, Stolen)
	}
	if evidenceOf(s)[Throttled].share >= blameTail {
		causes = append(causes, Throttled)
	}
	return causes
}

func shareOf(part *float64, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return orZero(part) / whole
}

// orZero is *v, or 0 where there is none.
func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
