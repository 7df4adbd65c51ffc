package shard

import (
	"os"
	"slices"
	"testing"
	"time"
)

func TestMeasureOffsets(t *testing.T) {
	if os.Getenv("MEASURE") == "" {
		t.Skip()
	}
	var off, bound []int64
	held := 0
	for range 25 {
		list := group(t.TempDir(), 5)
		for i, shift := range []time.Duration{0, 50 * time.Microsecond, -700 * time.Microsecond, 5 * time.Millisecond, 400 * time.Microsecond} {
			list[i].shift = shift
			list[i].runs = time.Second
		}
		runAll(t, list)
		for i, m := range list[1:] {
			_ = i
			if m.err != nil {
				t.Fatal(m.err)
			}
			for _, o := range m.clock {
				e := max(o.OffsetNS-int64(m.shift), int64(m.shift)-o.OffsetNS)
				off, bound = append(off, e), append(bound, o.ErrorNS)
				if e <= o.ErrorNS {
					held++
				}
			}
		}
	}
	slices.Sort(off)
	slices.Sort(bound)
	n := len(off)
	t.Logf("%d samples, within the bound %d; off median %d p99 %d max %d ns; bound median %d p99 %d max %d ns", n, held, off[n/2], off[n*99/100], off[n-1], bound[n/2], bound[n*99/100], bound[n-1])
}
