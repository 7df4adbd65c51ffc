package worlds

// Worlds returns the worlds of runs that are compared or judged alone. All but the queues begin with noise of 10 %.
func Worlds() []World {
	// quiet is a world whose requests never wait.
	quiet := func(name string, effects ...Effect) World {
		return World{Name: name, Noise: append([]Effect{LogNormal(0.1)}, effects...)}
	}
	once := func(name string, effect Effect) World {
		w := quiet(name)
		w.Once = []Effect{effect}
		return w
	}
	// talks has conversations of so many turns, each 10 % off.
	talks := func(name string, turns int) World {
		w := quiet(name, PerConversation(0.1))
		w.Turns = turns
		return w
	}
	// queue is M/G/4.
	queue := func(name string, busy float64) World {
		return World{Name: name, Slots: 4, Busy: busy, Noise: []Effect{LogNormal(0.3)}}
	}
	all := queue("everything", 0.7)
	all.Turns = 40
	all.Once = []Effect{WholeRun(0.005)}
	all.Noise = append(all.Noise, PerConversation(0.1), Walk(0.02), Failures(0.01))
	leak := queue("leak", 0.5) // at first; slower by 2 % every minute
	leak.Noise = append(leak.Noise, Leak(0.02))
	grows := queue("autoscaler", 1.2) // 4 slots more a minute after 8 wait
	grows.Rules = []Rule{Grow(8, 4, 60)}
	passes := quiet("passes") // after 400 requests the trace begins again, with other content
	passes.Pass = 400
	queued := queue("passes-queue", 0.5) // likewise
	queued.Pass = 400
	pareto := World{Name: "pareto", Noise: []Effect{Pareto(2.5)}} // its tail falls as x^-2.5
	return []World{
		quiet("independent"), // nothing else
		pareto,
		quiet("outliers", Outliers(0.02, 10)), // 2 % of the times are ten times as long
		quiet("cliff", Outliers(0.05, 10)),    // 5 % are, so that p95 lies at the edge
		quiet("failures", Failures(0.05)),     // 5 % of the requests fail
		quiet("ticks", Ticks(25)),             // times are whole steps of 25 ms
		talks("turns-4", 4),
		talks("turns-40", 40),
		talks("agents", 100),
		talks("turns-400", 400),
		queue("queue-50", 0.5),
		queue("queue-70", 0.7),
		queue("queue-90", 0.9),
		quiet("correlated-1", Correlated(0.01, 0.05)), // 5 % off for about 1 % of the run
		quiet("correlated-5", Correlated(0.05, 0.05)), // 5 % off for about 5 % of the run
		quiet("correlated-20", Correlated(0.2, 0.05)), // 5 % off for about 20 % of the run
		quiet("walk", Walk(0.02)),                     // a random walk of 2 %
		quiet("walk-4", Walk(0.04)),                   // of 4 %
		quiet("walk-8", Walk(0.08)),                   // of 8 %
		quiet("drift", Drift(1.3)),                    // slower by 30 % in the end
		quiet("step", Step(0.5, 1.3)),                 // slower by 30 % from mid-run on
		quiet("warm-up", WarmUp(0.1, 2)),              // the first tenth takes twice as long
		quiet("stalls", Stalls(30, 1)),                // a stop of 1 s every 30 s
		quiet("gc", Stalls(10, 0.3)),                  // a stop of 300 ms every 10 s
		quiet("cron", Cron(60, 5, 1.5)),               // half as long again in the last 5 s of each minute
		quiet("warm-cache", Warms(20, 3)),             // a TTFT of three times that falls within 20 s
		quiet("starved", Starve(20, 0.5)),             // the client stops for 500 ms every 20 s
		passes,
		queued,
		leak,
		grows,
		quiet("burst", Burst(30, 5)),             // 30 requests in a row take five times as long
		quiet("wave-half", Wave(0.5, 0.05)),      // half a sine of 5 %
		quiet("wave-1", Wave(1, 0.05)),           // a sine of 5 %
		quiet("wave-5", Wave(5, 0.05)),           // five sines of 5 %
		quiet("wave-10", Wave(10, 0.05)),         // ten sines of 5 %
		once("walk within", Walk(0.02)),          // the same walk, a part of what each run was
		once("runs-0.3", WholeRun(0.003)),        // each whole run is 0.3 % off
		once("runs-0.5", WholeRun(0.005)),        // each whole run is 0.5 % off
		once("runs-1", WholeRun(0.01)),           // each whole run is 1 % off
		once("modes", Modes(0.5, 1.02)),          // every second run is 2 % slower
		once("rare mode", Modes(0.1, 1.1)),       // every tenth run is 10 % slower
		once("restart", Restarts(80, 2, 8, 1.5)), // 2 s of failures every 80 s, half as long again for 8 s
		once("neighbour", Neighbour(0.15, 1.5)),  // 15 % of every second run take half as long again
		all,
	}
}
