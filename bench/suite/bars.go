package main

const (
	µs = 1e3
	ms = 1e6
)

// allBars are what a run on 2 cores with the server beside it must reach.
func allBars() []bar {
	main := mainLoad.name()
	ours, rival := us(fifo), rivalName
	drift := func(who, p string) key { return key{main, who, "drift-" + p + "-ns"} }
	twice := func(scenario, of, by, p string) bar {
		return bar{
			of:    key{scenario, ours + of, "drift-" + p + "-ns"},
			by:    key{scenario, ours + by, "drift-" + p + "-ns"},
			limit: 2,
		}
	}
	rate := func(scenario string) bar {
		return bar{
			of:      key{scenario, usOnOneCore, requestRate},
			by:      key{scenario, wrkOnOneCore, requestRate},
			limit:   0.9,
			atLeast: true,
		}
	}
	goBar := func(name, unit string, limit float64) bar {
		return bar{of: key{goName, name, unit}, limit: limit, atLeast: true}
	}
	all := []bar{
		{of: drift(ours, "p50"), limit: 2 * µs},
		{of: drift(ours, "p99"), limit: 20 * µs},
		{of: drift(ours, "p99.9"), by: key{floorName, waiterOnly + fifo.name, "lateness-p99.9-ns"}, limit: 5},
		{of: drift(rival, "p50"), by: drift(ours, "p50"), limit: 50, atLeast: true},
		{of: drift(rival, "p99"), by: drift(ours, "p99"), limit: 50, atLeast: true},
		{of: drift(us(slice), "p50"), limit: 5 * µs},
		{of: drift(us(slice), "p99"), limit: 1 * ms},
		{of: key{burstName, ours, burstRatio}, limit: 1.2},
		{of: key{burstName, ours + twoSenders, burstRatio}, limit: 1.2},
		twice(httpsName, overHTTPS, overHTTP, "p50"),
		twice(httpsName, overHTTPS, overHTTP, "p99"),
		twice(windowName, quarterBuilt, allPrebuilt, "p99"),
		rate(throughputMock), rate(throughputBare),
		{of: key{wholeName, allCores, readyTime}, limit: 5e9},
		{of: key{conversationName, ours, memoryAbove}, limit: 100e6},
		{of: key{memoryName, ours, memoryPerStream}, limit: 40e3},
		{of: key{main, ours, "collections"}, limit: 0},
		// A rate per core means one that never sleeps.
		goBar("EpollReader", "events/cpu-s", 150_000),
		goBar("Response", "events/s", 5e6),
		goBar("ReadConversationTrace", "MB/s", 400),
		goBar("ReadMooncake", "MB/s", 400),
		goBar("TokenIDs/mooncake", "Mtokens/s", 100),
		goBar("Fill", "tokens/s", 100e6),
	}
	for _, c := range []struct {
		streams     int
		first, gaps float64
	}{{100, 0.3 * ms, 0.4 * ms}, {500, 0.5 * ms, 1 * ms}, {1000, 1.5 * ms, 4 * ms}} {
		all = append(all, bar{of: key{accuracyName(c.streams), ours, "first-token-error-p99-ns"}, limit: c.first},
			bar{of: key{accuracyName(c.streams), ours, "gap-error-p99-ns"}, limit: c.gaps})
	}
	return all
}
