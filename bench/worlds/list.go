package worlds

import "fmt"

// noise is the independent noise of a server in which nothing else is wrong.
var noise = LogNormal(0.1)

// Worlds returns the worlds of runs that are compared or judged alone.
func Worlds() []World {
	quiet := func(effects ...Effect) []Effect { return append([]Effect{noise}, effects...) }
	out := []World{
		{Name: "independent", About: "log-normal noise of 10 %", Noise: quiet()},
		{Name: "pareto", About: "noise whose tail falls as x^-2.5", Noise: []Effect{Pareto(2.5)}},
		{Name: "outliers", About: "2 % of the times are ten times as long", Noise: quiet(Outliers(0.02, 10))},
		{Name: "failures", About: "5 % of the requests fail", Noise: quiet(Failures(0.05))},
		{Name: "agents", About: "20 conversations, each 10 % off", Turns: 100, Noise: quiet(PerConversation(0.1))},
	}
	for _, turns := range []int{4, 40, 400} {
		out = append(out, World{
			Name:  fmt.Sprintf("turns-%d", turns),
			About: fmt.Sprintf("conversations of %d turns, each 10 %% off", turns),
			Turns: turns, Noise: quiet(PerConversation(0.1)),
		})
	}
	for _, busy := range []float64{0.5, 0.7, 0.9} {
		out = append(out, World{
			Name:  fmt.Sprintf("queue-%.0f", 100*busy),
			About: fmt.Sprintf("M/G/4, %.0f %% busy", 100*busy),
			Slots: 4, Busy: busy, Noise: []Effect{LogNormal(0.3)},
		})
	}
	for _, share := range []float64{0.01, 0.05, 0.2} {
		out = append(out, World{
			Name:  fmt.Sprintf("correlated-%.0f", 100*share),
			About: fmt.Sprintf("noise of 5 %% with a correlation length of %.0f %% of the run", 100*share),
			Noise: quiet(Correlated(share, 0.05)),
		})
	}
	for _, sigma := range []float64{0.003, 0.005, 0.01} {
		out = append(out, World{
			Name:  fmt.Sprintf("runs-%.1f", 100*sigma),
			About: fmt.Sprintf("each whole run is %.1f %% off", 100*sigma),
			Once:  []Effect{WholeRun(sigma)}, Noise: quiet(),
		})
	}
	return append(out,
		World{Name: "walk", About: "a random walk of 2 %", Noise: quiet(Walk(0.02))},
		World{Name: "drift", About: "the server slows by 30 %", Noise: quiet(Drift(1.3))},
		World{Name: "step", About: "in mid-run the server slows by 30 %", Noise: quiet(Step(0.5, 1.3))},
		World{Name: "stalls", About: "a stop of 1 s every 30 s", Noise: quiet(Stalls(30, 1))},
		World{Name: "warm-up", About: "the first tenth takes twice as long", Noise: quiet(WarmUp(0.1, 2))},
		World{Name: "modes", About: "every second run is 2 % slower", Once: []Effect{Modes(1.02)}, Noise: quiet()},
		World{
			Name: "neighbour", About: "15 % of every second run take half as long again",
			Once: []Effect{Neighbour(0.15, 1.5)}, Noise: quiet(),
		},
		World{
			Name: "everything", About: "a queue 70 % busy, conversations, failures, a walk, runs 0.5 % off",
			Turns: 40, Slots: 4, Busy: 0.7, Once: []Effect{WholeRun(0.005)},
			Noise: []Effect{LogNormal(0.3), PerConversation(0.1), Walk(0.02), Failures(0.01)},
		},
	)
}
