package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// goodput is what --goodput says, of a run or of a report on one.
type goodput struct {
	lists []string
	slos  []metrics.SLO // parsed
}

func (g *goodput) addFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&g.lists, "goodput", nil, "count requests that keep within all of these `BOUNDS`, in ms, such as \"ttft:500 tpot:50\"; repeatable")
}

func (g *goodput) complete() (err error) {
	if g.slos, err = metrics.ParseSLOs(g.lists...); err != nil {
		return fmt.Errorf("--goodput: %w", err)
	}
	return nil
}
