package metrics

import (
	"fmt"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/route"
)

// costlyPlacement is how much of the prompt tokens a gateway's placement must cost before a note says so.
const costlyPlacement = 0.01

// placementNotes say what it cost that a gateway sent requests where it did. Where we did, the table says it.
func placementNotes(s *Summary) []string {
	o := s.Routing
	if o == nil || o.Actual == nil || s.Instances == nil || len(s.Instances.Parts) != o.Instances || s.Instances.direct {
		return nil
	}
	best, bounded := o.Of(route.PrefixName), o.Of(route.PrefixBoundedName)
	if max(best.HitRatio, bounded.HitRatio)-o.Actual.HitRatio < costlyPlacement {
		return nil
	}
	return []string{fmt.Sprintf("the gateway's placement on %s can reach %s prefix hits at best, a greedy prefix-aware router %s (%s within %g times the mean load), one cache for all %s",
		format.Many(int64(o.Instances), "instance"), format.Percent(o.Actual.HitRatio), format.Percent(best.HitRatio), format.Percent(bounded.HitRatio), o.LoadBound, format.Percent(o.OneCacheRatio))}
}
