package compare

import (
	"slices"

	"github.com/fastreplay/fastreplay/bench/worlds"
)

// order is a world whose runs follow each other on one server, which remembers them.
type order struct {
	worlds.World
	Age func(runs int) worlds.Effect // what so many runs before leave behind
}

// at returns the run at a place of the order, from 0, on a server whose times are multiplied by change.
func (o order) at(seed uint64, place, n int, change float64) []worlds.Request {
	w := o.World
	w.Noise = append(slices.Clone(w.Noise), o.Age(place))
	return w.Run(seed, uint64(place), n, change)
}

// orders returns the worlds of runs one behind the other.
func orders() []order {
	of := func(name string, factor func(runs int) float64) order {
		w := worlds.World{Name: name, Noise: []worlds.Effect{worlds.LogNormal(0.1)}, Once: []worlds.Effect{worlds.WholeRun(0.003)}}
		return order{w, func(runs int) worlds.Effect { return worlds.Step(0, factor(runs)) }}
	}
	return []order{
		// each run is 0.3 % off
		of("fresh", func(int) float64 { return 1 }),
		// each run is 1 % slower than the one before
		of("leak", func(runs int) float64 {
			return 1 + 0.01*float64(runs)
		}),
		// the first run takes half as long again
		of("cold", func(runs int) float64 {
			if runs == 0 {
				return 1.5
			}
			return 1
		}),
		// the first run takes half as long again, each after it half of the rest
		of("cools", func(runs int) float64 {
			return 1 + 0.5/float64(int(1)<<runs)
		}),
		// every second run is 2 % slower
		of("every other", func(runs int) float64 { return 1 + 0.02*float64(runs%2) }),
	}
}
