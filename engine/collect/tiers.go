package collect

import (
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// tierCounts counts hits by the tier of the servers' caches. It belongs to the recorder.
type tierCounts struct {
	told      metrics.CacheTiers
	bySlowest breakdown
}

// add counts a request that has ended, if its answer told tiers apart.
func (c *tierCounts) add(r *record.Record) {
	if r.Outcome != record.OK {
		return
	}
	told := false
	slowest := "none"
	for _, tier := range []struct {
		name   string
		tokens int64
		sum    **int64
	}{
		{"device", r.CachedDeviceTokens, &c.told.DeviceTokens},
		{"host", r.CachedHostTokens, &c.told.HostTokens},
		{"external", r.CachedExternalTokens, &c.told.ExternalTokens},
	} {
		if tier.tokens == record.None {
			continue
		}
		told = true
		if *tier.sum == nil {
			*tier.sum = new(int64)
		}
		**tier.sum += tier.tokens
		if tier.tokens > 0 {
			slowest = tier.name
		}
	}
	if told {
		c.told.Requests++
		c.bySlowest.add(slowest, r)
	}
}

// summary is nil if no answer told.
func (c *tierCounts) summary(durationS float64) *metrics.CacheTiers {
	if c.told.Requests == 0 {
		return nil
	}
	s := c.told
	s.DeviceTokensPerS = perSecond(s.DeviceTokens, durationS)
	s.HostTokensPerS = perSecond(s.HostTokens, durationS)
	s.ExternalTokensPerS = perSecond(s.ExternalTokens, durationS)
	s.BySlowest = c.bySlowest.summary(1, false).Parts
	return &s
}

// perSecond is nil of an unknown number.
func perSecond(tokens *int64, durationS float64) *float64 {
	if tokens == nil {
		return nil
	}
	return stats.Ratio(float64(*tokens), durationS)
}
