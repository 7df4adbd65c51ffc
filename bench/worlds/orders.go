package worlds

import "slices"

// Order is a world whose runs follow each other on one server, which remembers them.
type Order struct {
	World
	Age func(runs int) Effect // what so many runs before leave behind
}

// At returns the run at a place of the order, from 0, on a server whose times are multiplied by change.
func (o Order) At(seed uint64, place, n int, change float64) []Request {
	w := o.World
	w.Noise = append(slices.Clone(w.Noise), o.Age(place))
	return w.Run(seed, uint64(place), n, change)
}

// Orders returns the worlds of runs one behind the other.
func Orders() []Order {
	of := func(name, about string, factor func(runs int) float64) Order {
		w := World{Name: name, About: about, Noise: []Effect{LogNormal(0.1)}, Once: []Effect{WholeRun(0.003)}}
		return Order{w, func(runs int) Effect { return along(func(float64) float64 { return factor(runs) }) }}
	}
	return []Order{
		of("fresh", "each run is 0.3 % off", func(int) float64 { return 1 }),
		of("leak", "each run is 1 % slower than the one before", func(runs int) float64 {
			return 1 + 0.01*float64(runs)
		}),
		of("cold", "the first run takes half as long again", func(runs int) float64 {
			if runs == 0 {
				return 1.5
			}
			return 1
		}),
		of("cools", "the first run takes half as long again, each after it half of the rest", func(runs int) float64 {
			return 1 + 0.5/float64(int(1)<<runs)
		}),
		of("every other", "every second run is 2 % slower", func(runs int) float64 { return 1 + 0.02*float64(runs%2) }),
	}
}
