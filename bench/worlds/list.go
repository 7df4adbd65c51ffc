package worlds

import "fmt"

// Worlds returns the worlds of runs that are compared or judged alone. All but the queues begin with noise of 10 %.
func Worlds() []World {
	// quiet is a world whose requests never wait.
	quiet := func(name, about string, effects ...Effect) World {
		return World{Name: name, About: about, Noise: append([]Effect{LogNormal(0.1)}, effects...)}
	}
	once := func(name, about string, effect Effect) World {
		w := quiet(name, about)
		w.Once = []Effect{effect}
		return w
	}
	talks := func(name string, turns int) World {
		w := quiet(name, fmt.Sprintf("conversations of %d turns, each 10 %% off", turns), PerConversation(0.1))
		w.Turns = turns
		return w
	}
	queue := func(name string, busy float64) World {
		about := fmt.Sprintf("M/G/4, %.0f %% busy", 100*busy)
		return World{Name: name, About: about, Slots: 4, Busy: busy, Noise: []Effect{LogNormal(0.3)}}
	}
	all := queue("everything", 0.7)
	all.About += ", conversations, failures, a walk, runs 0.5 % off"
	all.Turns = 40
	all.Once = []Effect{WholeRun(0.005)}
	all.Noise = append(all.Noise, PerConversation(0.1), Walk(0.02), Failures(0.01))
	leak := queue("leak", 0.5)
	leak.About += " at first, slower by 2 % every minute"
	leak.Noise = append(leak.Noise, Leak(0.02))
	grows := queue("autoscaler", 1.2)
	grows.About += ", 4 slots more a minute after 8 wait"
	grows.Rules = []Rule{Grow(8, 4, 60)}
	passes := quiet("passes", "after 400 requests the trace begins again, with other content")
	passes.Pass = 400
	queued := queue("passes-queue", 0.5)
	queued.About += ", every 400 requests the same trace with other content"
	queued.Pass = 400
	pareto := World{Name: "pareto", About: "the noise's tail falls as x^-2.5", Noise: []Effect{Pareto(2.5)}}
	return []World{
		quiet("independent", "nothing else"),
		pareto,
		quiet("outliers", "2 % of the times are ten times as long", Outliers(0.02, 10)),
		quiet("cliff", "5 % are, so that p95 lies at the edge", Outliers(0.05, 10)),
		quiet("failures", "5 % of the requests fail", Failures(0.05)),
		quiet("ticks", "times are whole steps of 25 ms", Ticks(25)),
		talks("turns-4", 4),
		talks("turns-40", 40),
		talks("agents", 100),
		talks("turns-400", 400),
		queue("queue-50", 0.5),
		queue("queue-70", 0.7),
		queue("queue-90", 0.9),
		quiet("correlated-1", "5 % off for about 1 % of the run", Correlated(0.01, 0.05)),
		quiet("correlated-5", "5 % off for about 5 % of the run", Correlated(0.05, 0.05)),
		quiet("correlated-20", "5 % off for about 20 % of the run", Correlated(0.2, 0.05)),
		quiet("walk", "a random walk of 2 %", Walk(0.02)),
		quiet("drift", "slower by 30 % in the end", Drift(1.3)),
		quiet("step", "slower by 30 % from mid-run on", Step(0.5, 1.3)),
		quiet("warm-up", "the first tenth takes twice as long", WarmUp(0.1, 2)),
		quiet("stalls", "a stop of 1 s every 30 s", Stalls(30, 1)),
		quiet("gc", "a stop of 300 ms every 10 s", Stalls(10, 0.3)),
		quiet("cron", "half as long again in the last 5 s of each minute", Cron(60, 5, 1.5)),
		quiet("warm-cache", "a TTFT of three times that falls within 20 s", Warms(20, 3)),
		quiet("starved", "the client stops for 500 ms every 20 s", Starve(20, 0.5)),
		passes,
		queued,
		leak,
		grows,
		quiet("burst", "30 requests in a row take five times as long", Burst(30, 5)),
		quiet("wave-half", "half a sine of 5 %", Wave(0.5, 0.05)),
		quiet("wave-1", "a sine of 5 %", Wave(1, 0.05)),
		quiet("wave-5", "five sines of 5 %", Wave(5, 0.05)),
		quiet("wave-10", "ten sines of 5 %", Wave(10, 0.05)),
		once("walk within", "the same walk, a part of what each run was", Walk(0.02)),
		once("runs-0.3", "each whole run is 0.3 % off", WholeRun(0.003)),
		once("runs-0.5", "each whole run is 0.5 % off", WholeRun(0.005)),
		once("runs-1", "each whole run is 1 % off", WholeRun(0.01)),
		once("modes", "every second run is 2 % slower", Modes(0.5, 1.02)),
		once("rare mode", "every tenth run is 10 % slower", Modes(0.1, 1.1)),
		once("restart", "2 s of failures every 80 s, half as long again for 8 s", Restarts(80, 2, 8, 1.5)),
		once("neighbour", "15 % of every second run take half as long again", Neighbour(0.15, 1.5)),
		all,
	}
}
