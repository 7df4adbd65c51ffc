package main

import (
	"fmt"
	"strings"
)

const hotpathName = "hotpath/allocations"

// proofs are the tests that nothing is allocated for a request once the run has begun, by package.
func proofs() [][2]string {
	return [][2]string{
		{"./sched", "TestClockReadsWithoutAllocating"},
		{"./engine", "TestHotPathDoesNotAllocate|TestReplyDoesNotAllocate"},
		{"./codec/http1", "TestScanAllocatesNothing"},
		{"./codec/sse", "TestNextAllocatesNothing"},
		{"./codec/api", "TestParseAllocatesNothing"},
		{"./codec/record", "TestAppendJSONAllocatesNothing"},
		{"./engine/metrics", "TestCollectorAllocatesNothing"},
		{"./engine/report", "TestAppendAllocatesNothing"},
	}
}

func hotpathScenarios() []scenario {
	return []scenario{{hotpathName, "the tests that fire, scan, parse and record allocate nothing; collections are counted in every replay", runHotpath}}
}

// runHotpath counts the tests that fail or are not there any more.
func runHotpath(r *round) error {
	if r.quick || r.number > 0 { // `go test ./...` runs them too, and they always end alike
		return nil
	}
	passed, missing := 0, 0
	for _, p := range proofs() {
		out, _, err := r.finish([]int{1}, "go", "test", "-v", "-count=1", "-run", "^("+p[1]+")$", p[0])
		if err != nil {
			return err
		}
		for _, name := range strings.Split(p[1], "|") {
			if strings.Contains(string(out), fmt.Sprintf("--- PASS: %s ", name)) {
				passed++
			} else {
				missing++
				r.skip("%s: %s did not pass", p[0], name)
			}
		}
	}
	r.put("tests", "passed", count, float64(passed))
	r.put("tests", "not passed", count, float64(missing))
	return nil
}
