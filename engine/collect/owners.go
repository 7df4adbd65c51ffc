package collect

import (
	"cmp"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// ownerCounts counts by whose requests they are. It belongs to the recorder.
type ownerCounts struct {
	tenants, models, classes, priorities breakdown
}

func (c *ownerCounts) all() []*breakdown {
	return []*breakdown{&c.tenants, &c.models, &c.classes, &c.priorities}
}

func (c *ownerCounts) add(r *record.Record) {
	c.tenants.add(r.Tenant, r)
	c.models.add(r.Model, r)
	c.classes.add(r.Class, r)
	c.priorities.add(r.Priority, r)
}

// summary is nil if no request says whose it is.
func (c *ownerCounts) summary(over bool) *metrics.Owners {
	s := &metrics.Owners{
		Tenants:    c.tenants.summary(1, over),
		Models:     c.models.summary(1, over),
		Classes:    c.classes.summary(1, over),
		Priorities: c.priorities.summary(1, over),
	}
	if *s == (metrics.Owners{}) {
		return nil
	}
	return s
}

const (
	// loadFactor is how many times the TTFT of all requests that of first ones is, of which a note speaks.
	loadFactor = 2
	// starvedFactor is likewise how many times the longest wait of half of the models that of one is.
	starvedFactor = 4
)

// adapterNotes say what the first use of a model, such as a LoRA adapter, costs, and which one waits for long.
func adapterNotes(s *metrics.Summary) []string {
	if s.Owners == nil || s.Owners.Models == nil || len(s.Owners.Models.Parts) < 2 || s.TTFTMS == nil {
		return nil
	}
	by := s.Owners.Models
	var firsts, waits []float64
	for _, part := range by.Parts {
		if part.FirstTTFTMS != nil {
			firsts = append(firsts, *part.FirstTTFTMS)
		}
		waits = append(waits, *part.LongestWaitMS)
	}
	var out sentences
	first, usual := stats.Describe(firsts, 1).P50, s.TTFTMS.P50
	out.add(first > loadFactor*usual,
		"the first request for a model at a target has a TTFT of %s (median of %s), and half of all requests one "+
			"below %s: a server that loads adapters takes so long for it",
		format.Milliseconds(first), format.Many(len(firsts), "model"), format.Milliseconds(usual))
	longest := slices.MaxFunc(by.Parts, func(x, y metrics.Part) int {
		return cmp.Compare(*x.LongestWaitMS, *y.LongestWaitMS)
	})
	half := stats.Describe(waits, 1).P50
	out.add(*longest.LongestWaitMS > starvedFactor*half,
		"a request for the model %s waited %s for its first token: for half of the models none waited longer than %s",
		longest.Name, format.Milliseconds(*longest.LongestWaitMS), format.Milliseconds(half))
	return out
}
