package main

import "slices"

// allBars are what a run on 2 cores with the server beside it must reach.
func allBars() []bar {
	return slices.Concat(punctualityBars(), besideBars(), accuracyBars(), capacityBars())
}

const (
	µs = 1e3
	ms = 1e6
)

func punctualityBars() []bar {
	main := mainLoad.name()
	drift := func(who, p string) key { return key{main, who, "drift " + p} }
	late := func(who, p string) key { return key{floorName, waiterOnly + who, "lateness " + p} }
	lane, rival := us(mode{name: fifo}), rivalName("fasthttp")
	bare := us(mode{name: slice})
	bursts := key{burstName, lane, burstRatio}
	lanes := key{burstName, lane + ", two lanes", burstRatio}
	return []bar{
		{of: drift(lane, "p50"), limit: 2 * µs, beside: late(fifo, "p50")},
		{of: drift(lane, "p99"), limit: 20 * µs, beside: late(fifo, "p99")},
		{of: drift(lane, "p99.9"), by: late(fifo, "p99.9"), limit: 5},
		{of: drift(rival, "p50"), by: drift(lane, "p50"), limit: 50, atLeast: true},
		{of: drift(rival, "p99"), by: drift(lane, "p99"), limit: 50, atLeast: true},
		{of: drift(bare, "p50"), limit: 5 * µs, beside: late(slice, "p50")},
		{of: drift(bare, "p99"), limit: 1 * ms, beside: late(slice, "p99")},
		{of: bursts, limit: 1.2},
		{of: lanes, limit: 1.2},
	}
}

// besideBars are of the same load twice.
func besideBars() []bar {
	twice := func(scenario, of, by, p string) bar {
		lane := us(mode{name: fifo})
		return bar{of: key{scenario, lane + of, "drift " + p}, by: key{scenario, lane + by, "drift " + p}, limit: 2}
	}
	return []bar{
		twice(httpsName, overHTTPS, overHTTP, "p50"),
		twice(httpsName, overHTTPS, overHTTP, "p99"),
		twice(windowName, quarterBuilt, allPrebuilt, "p99"),
	}
}

func accuracyBars() []bar {
	var all []bar
	lane, rival := us(mode{name: fifo}), rivalName("fasthttp")
	for _, c := range []struct {
		streams     int
		first, gaps float64
	}{{100, 0.3 * ms, 0.4 * ms}, {500, 0.5 * ms, 1 * ms}, {1000, 1.5 * ms, 4 * ms}} {
		of := func(who, name string) key { return key{accuracyName(c.streams), who, name} }
		all = append(all,
			bar{of: of(lane, firstError+" p99"), limit: c.first, beside: of(rival, firstError+" p99")},
			bar{of: of(lane, gapError+" p99"), limit: c.gaps, beside: of(rival, gapError+" p99")})
	}
	return all
}

func capacityBars() []bar {
	lane := us(mode{name: fifo})
	rate := func(scenario string) bar {
		return bar{of: key{scenario, usOnOneCore, requestRate}, by: key{scenario, wrkOnOneCore, requestRate}, limit: 0.9, atLeast: true}
	}
	return []bar{
		rate(throughputMock), rate(throughputBare),
		// A rate per core means one that never sleeps; what a real client makes of its core, sse/live shows.
		{of: key{sseReadsName, "engine", "Loop"}, limit: 150_000, atLeast: true},
		{of: key{sseMemoryName, "engine", "Reply"}, limit: 5e6, atLeast: true},
		{of: key{decodeName, "codec/trace", "ReadConversationTrace"}, limit: 400e6, atLeast: true},
		{of: key{decodeName, "codec/trace", "ReadMooncake"}, limit: 400e6, atLeast: true},
		{of: key{buildName, "codec/prompt", "TokenIDs/mooncake"}, limit: 100e6, atLeast: true},
		{of: key{buildName, "engine", "Fill"}, limit: 100e6, atLeast: true},
		{of: key{wholeName, "fastreplay, all cores", readyTime}, limit: 5e9},
		{of: key{"punctuality/conversation-x60", lane, memoryAbove}, limit: 100e6},
		{of: key{memoryName, lane, memoryPerStream}, limit: 40e3},
		{of: key{hotpathName, "tests", "not passed"}, limit: 0},
		{of: key{mainLoad.name(), lane, "collections"}, limit: 0},
	}
}
