package worlds

import (
	"math"
	"math/rand/v2"
)

// Effect changes the times of a run's requests before they queue.
type Effect func(r *rand.Rand, run []Request)

// slow multiplies all times of request i by factor(i).
func slow(run []Request, factor func(i int) float64) {
	for i := range run {
		f := factor(i)
		run[i].TTFT *= f
		run[i].TPOT *= f
	}
}

// each multiplies the TTFT and the TPOT of every request by draws of their own.
func each(draw func(r *rand.Rand) float64) Effect {
	return func(r *rand.Rand, run []Request) {
		for i := range run {
			run[i].TTFT *= draw(r)
			run[i].TPOT *= draw(r)
		}
	}
}

// along multiplies all times by a factor of the share of the run that is over, the same in each run.
func along(factor func(share float64) float64) Effect {
	return func(_ *rand.Rand, run []Request) {
		slow(run, func(i int) float64 { return factor(float64(i) / float64(len(run))) })
	}
}

// lognormal has mean 1.
func lognormal(r *rand.Rand, sigma float64) float64 {
	return math.Exp(sigma*r.NormFloat64() - sigma*sigma/2)
}

// LogNormal is independent noise with mean 1.
func LogNormal(sigma float64) Effect {
	return each(func(r *rand.Rand) float64 { return lognormal(r, sigma) })
}

// Pareto is independent noise with mean 1, whose tail falls as x to the power of -alpha.
func Pareto(alpha float64) Effect {
	return each(func(r *rand.Rand) float64 { return (alpha - 1) / alpha * math.Pow(1-r.Float64(), -1/alpha) })
}

// Outliers multiplies a share of all times.
func Outliers(share, factor float64) Effect {
	return each(func(r *rand.Rand) float64 {
		if r.Float64() < share {
			return factor
		}
		return 1
	})
}

// Failures lets a share of the requests fail. They hold a slot as others do.
func Failures(share float64) Effect {
	return func(r *rand.Rand, run []Request) {
		for i := range run {
			run[i].OK = run[i].OK && r.Float64() >= share
		}
	}
}

// PerConversation gives each conversation of a run a factor of its own.
func PerConversation(sigma float64) Effect {
	return func(r *rand.Rand, run []Request) {
		factors := map[int]float64{}
		slow(run, func(i int) float64 {
			c := run[i].Conversation
			if factors[c] == 0 {
				factors[c] = lognormal(r, sigma)
			}
			return factors[c]
		})
	}
}

// Walk is a random walk whose last step lies sigma from its first one.
func Walk(sigma float64) Effect {
	return func(r *rand.Rand, run []Request) {
		at := 0.0
		step := sigma / math.Sqrt(float64(len(run)))
		slow(run, func(int) float64 {
			at += step * r.NormFloat64()
			return math.Exp(at)
		})
	}
}

// Correlated is noise whose correlation falls by e within a share of the run.
func Correlated(share, sigma float64) Effect {
	return func(r *rand.Rand, run []Request) {
		keep := math.Exp(-1 / (share * float64(len(run))))
		at := r.NormFloat64()
		step := math.Sqrt(1 - keep*keep)
		slow(run, func(int) float64 {
			at = keep*at + step*r.NormFloat64()
			return math.Exp(sigma*at - sigma*sigma/2)
		})
	}
}

// Drift slows the server evenly, in all by a factor.
func Drift(factor float64) Effect {
	return along(func(share float64) float64 { return 1 + (factor-1)*share })
}

// Step multiplies all times from a share of the run on.
func Step(from, factor float64) Effect {
	return along(func(share float64) float64 {
		if share < from {
			return 1
		}
		return factor
	})
}

// WarmUp multiplies all times until a share of the run is over.
func WarmUp(until, factor float64) Effect {
	return along(func(share float64) float64 {
		if share < until {
			return factor
		}
		return 1
	})
}

// Wave slows the server by a sine of so many periods a run, which begins at a random phase.
func Wave(periods, depth float64) Effect {
	return func(r *rand.Rand, run []Request) {
		phase := r.Float64()
		slow(run, func(i int) float64 {
			return 1 + depth*math.Sin(2*math.Pi*(phase+periods*float64(i)/float64(len(run))))
		})
	}
}

// Ticks rounds all times up to whole steps: the server answers at its clock's beat.
func Ticks(ms float64) Effect {
	return func(_ *rand.Rand, run []Request) {
		for i := range run {
			run[i].TTFT = ms * math.Ceil(run[i].TTFT/ms)
			run[i].TPOT = ms * math.Ceil(run[i].TPOT/ms)
		}
	}
}

// Burst slows a few requests in a row, once a run at a random place.
func Burst(requests int, factor float64) Effect {
	return func(r *rand.Rand, run []Request) {
		from := r.IntN(max(1, len(run)-requests))
		slow(run, func(i int) float64 {
			if i < from || i >= from+requests {
				return 1
			}
			return factor
		})
	}
}

// Cold multiplies the times of the first so many seconds.
func Cold(seconds, factor float64) Effect {
	return func(_ *rand.Rand, run []Request) {
		slow(run, func(i int) float64 {
			if run[i].At < seconds {
				return factor
			}
			return 1
		})
	}
}

// Leak multiplies all times by a factor that grows by a share every minute.
func Leak(share float64) Effect {
	return func(_ *rand.Rand, run []Request) {
		slow(run, func(i int) float64 { return 1 + share*run[i].At/60 })
	}
}

// Forget lets the server forget a conversation that rests for so many seconds. It begins with none.
func Forget(seconds float64) Effect {
	return func(_ *rand.Rand, run []Request) {
		last := map[int]float64{}
		for i := range run {
			q := &run[i]
			if at, ok := last[q.Conversation]; !ok || q.At-at > seconds {
				q.TTFT += perToken * float64(q.Cached)
				q.Cached = 0
			}
			last[q.Conversation] = q.At
		}
	}
}

// Stalls lets all that arrives wait: the server stops every so many seconds for so long, from a random moment on.
func Stalls(every, long float64) Effect {
	return func(r *rand.Rand, run []Request) {
		phase := every * r.Float64()
		for i := range run {
			run[i].TTFT += 1000 * max(0, long-math.Mod(run[i].At+phase, every))
		}
	}
}

// Cron multiplies the times of what arrives while a job runs: the last so many seconds of each period of the run.
func Cron(every, long, factor float64) Effect {
	return func(_ *rand.Rand, run []Request) {
		slow(run, func(i int) float64 {
			if math.Mod(run[i].At, every) < every-long {
				return 1
			}
			return factor
		})
	}
}

// Restarts fails what arrives while the server starts again: every so many seconds for so long, from a random moment
// on. For a while behind that, all takes longer by a factor.
func Restarts(every, down, cold, factor float64) Effect {
	return func(r *rand.Rand, run []Request) {
		phase := every * r.Float64()
		since := func(i int) float64 { return math.Mod(run[i].At+phase, every) }
		slow(run, func(i int) float64 {
			if since(i) < down+cold {
				return factor
			}
			return 1
		})
		for i := range run {
			run[i].OK = run[i].OK && since(i) >= down
		}
	}
}

// Warms multiplies the TTFT by a factor that falls to 1, by e within so many seconds: a cache fills.
func Warms(seconds, factor float64) Effect {
	return func(_ *rand.Rand, run []Request) {
		for i := range run {
			run[i].TTFT *= 1 + (factor-1)*math.Exp(-run[i].At/seconds)
		}
	}
}

// Starve stops the client every so many seconds for so long, from a random moment on: first tokens that come meanwhile
// are read behind that.
func Starve(every, long float64) Effect {
	return func(r *rand.Rand, run []Request) {
		phase := every * r.Float64()
		for i := range run {
			run[i].TTFT += 1000 * max(0, long-math.Mod(run[i].At+run[i].TTFT/1000+phase, every))
		}
	}
}

// WholeRun multiplies all times of a run by one factor.
func WholeRun(sigma float64) Effect {
	return func(r *rand.Rand, run []Request) {
		f := lognormal(r, sigma)
		slow(run, func(int) float64 { return f })
	}
}

// Modes lets a share of the runs settle in a state that is slower by a factor.
func Modes(share, factor float64) Effect {
	return func(r *rand.Rand, run []Request) {
		f := 1.0
		if r.Float64() < share {
			f = factor
		}
		slow(run, func(int) float64 { return f })
	}
}

// Neighbour slows a part of every second run, somewhere.
func Neighbour(share, factor float64) Effect {
	return func(r *rand.Rand, run []Request) {
		from := r.Float64() * (1 - share)
		if r.IntN(2) == 1 {
			Step(from, factor)(r, run)
			Step(from+share, 1/factor)(r, run)
		}
	}
}
