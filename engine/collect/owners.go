package collect

import (
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
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
