package audit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/engine/workload/workloadtest"
)

// sent has records of requests which were all sent and answered by who has these names.
func sent(w *workload.Work, name func(i int) string) []record.Record {
	records := make([]record.Record, w.Requests())
	for i := range records {
		records[i] = record.Record{Outcome: record.OK, Instance: name(i), Endpoint: w.Endpoint(i).String()}
	}
	return records
}

// TestOracleKnowsWhoRouted: names for addresses of ours change nothing, least of all weights and caches; those behind a gateway are
// compared as they are.
func TestOracleKnowsWhoRouted(t *testing.T) {
	w := workloadtest.Routed(t, 1, 2, 3)
	bare := Oracle(w, sent(w, func(int) string { return "" }))
	named := Oracle(w, sent(w, func(i int) string { return fmt.Sprint("pod-", w.Places[i].Target) }))
	for _, o := range []*route.Oracle{bare, named} {
		robin := o.Of(route.RoundRobinName)
		if o.Instances != 3 || o.CapacityTokens == nil || *o.CapacityTokens != 96_000 || robin.HitTokens != o.Actual.HitTokens || o.Actual.HitTokens == 0 || robin.RequestsCV > 1e-9 {
			t.Errorf("%+v: round-robin %+v, as they went %+v", o, robin, o.Actual)
		}
	}
	behind := Oracle(w, sent(w, func(i int) string { return fmt.Sprint("pod-", i%7) }))
	if behind.Instances != 7 || behind.Actual.LargestShare > 0.2 {
		t.Errorf("%+v: as they went %+v", behind, behind.Actual)
	}
	twice := workloadtest.Routed(t, 1, 2, 1)
	if o := Oracle(twice, sent(twice, func(int) string { return "" })); o.Instances != 2 || o.Actual.LargestShare < 0.66 {
		t.Errorf("one server of two names: %+v: as they went %+v", o, o.Actual)
	}
}

// TestCachesBehindGateways: an instance has the capacity that its gateway tells.
func TestCachesBehindGateways(t *testing.T) {
	w := workloadtest.Routed(t, 1, 2)
	records := sent(w, func(i int) string { return fmt.Sprint(w.Places[i].Target, "-", i%2) })
	_, instances, capacity := byInstance(w, records, behindGateways(records))
	if !slices.Equal(capacity, []int64{16_000, 16_000, 32_000, 32_000}) || len(instances) != w.Requests() {
		t.Errorf("%v of %d", capacity, len(instances))
	}
}
