package trace

import (
	"fmt"
	"time"
)

// Thresholds of the linter's judgement on a whole file. They refuse a replay that would be wrong by the factor of 1,000
// between seconds and milliseconds, and let pass what a real server has seen. An explicit Options.TimeUnit silences
// those about time, as does a format that has only one, an explicit Options.BlockTokens none: it is what the ids are checked against.
const (
	// maxSpan is longer than the public traces whose unit may be mistaken.
	maxSpan = 31 * 24 * time.Hour
	// maxMeanGap is the mean time between requests from which a trace of slowRows rows or more is refused. Mooncake's conversation
	// trace has 0.29 s; its milliseconds taken for seconds would make 294 s.
	maxMeanGap = time.Minute
	slowRows   = 20
	// maxTokenRate is the mean input tokens a second above which a trace of fastRows rows or more is refused. The conversation
	// trace, the work of a whole cluster, has 41 thousand; its seconds taken for milliseconds would make 41 million.
	maxTokenRate = 10_000_000
	fastRows     = 100
	// maxMismatchPercent is the share of rows with hash ids of which the number of ids may not fit the length. More
	// means that the block size is wrong, not the rows.
	maxMismatchPercent = 5
	// maxBlockShift bounds the block sizes that are tried out for the message: 1 to 65,536 tokens.
	maxBlockShift = 16
)

// refuseUnit is the error for a span in ns that smells of the wrong time unit.
func (l *loader) refuseUnit(spanNS int64) error {
	if l.timed == 0 || l.o.TimeUnit != 0 || l.format.surely || spanNS == 0 {
		return nil
	}
	rows := len(l.timeNS) - len(l.unusable)
	var tokens float64
	for _, n := range l.input {
		tokens += float64(n)
	}
	span := time.Duration(spanNS)
	gap := span / time.Duration(max(rows-1, 1))
	rate := tokens / span.Seconds()
	switch {
	case span > maxSpan || rows >= slowRows && gap > maxMeanGap:
		return l.refuseSpan(fmt.Sprintf("%d rows over %v, one every %v on average", rows, span, gap), finerUnit(l.unit))
	case rows >= fastRows && rate > maxTokenRate:
		return l.refuseSpan(fmt.Sprintf("%d rows within %v, %.0f input tokens a second", rows, span, rate), coarserUnit(l.unit))
	}
	return nil
}

func (l *loader) refuseSpan(what string, other time.Duration) error {
	return refuse(l.name, what+", which smells of the wrong time unit ("+UnitName(l.unit)+")",
		fmt.Sprintf("pass --time-unit %s if that is what the timestamps are, or --time-unit %s to replay them as they stand", UnitName(other), UnitName(l.unit)))
}

// finerUnit and coarserUnit are the units that a wrong one is most often taken for.
func finerUnit(u time.Duration) time.Duration   { return max(u/1000, time.Nanosecond) }
func coarserUnit(u time.Duration) time.Duration { return min(u*1000, time.Second) }

// refuseBlockSize is the error for too many rows whose number of ids does not fit their length.
func (l *loader) refuseBlockSize() error {
	bad := l.lint.MissingIDs + l.lint.SurplusIDs
	if bad*100 <= l.withIDs*maxMismatchPercent {
		return nil
	}
	first, ids, tokens := l.firstMismatch()
	what := fmt.Sprintf("%d of %d rows have a number of hash ids that is not input_length / %d rounded up, first %s (%d ids for %d tokens)",
		bad, l.withIDs, l.blockTokens, first, ids, tokens)
	if size := l.fittingBlockSize(); size != 0 {
		return refuse(l.name, what, fmt.Sprintf("the ids fit blocks of %d tokens: pass --block-tokens %d", size, size))
	}
	return refuse(l.name, what, "pass the block size of the trace with --block-tokens")
}

// firstMismatch is the place, the number of ids and the tokens of the first row whose ids do not fit.
func (l *loader) firstMismatch() (place string, ids uint32, tokens int32) {
	for i, span := range l.ids.rows {
		if span.n > 0 && int(span.n) != blocksOf(l.input[i], l.blockTokens) {
			return l.place(i), span.n, l.input[i]
		}
	}
	panic("BUG: mismatches were counted but there are none")
}

// fittingBlockSize is the power of two that fits all rows but the permitted share, or 0.
func (l *loader) fittingBlockSize() int {
	for shift := range maxBlockShift + 1 {
		bad := 0
		for i, span := range l.ids.rows {
			if span.n > 0 && int(span.n) != blocksOf(l.input[i], 1<<shift) {
				bad++
			}
		}
		if bad*100 <= l.withIDs*maxMismatchPercent {
			return 1 << shift
		}
	}
	return 0
}
