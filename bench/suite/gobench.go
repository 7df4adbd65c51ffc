package main

import (
	"fmt"
	"strconv"
	"strings"
)

const goName = "go-benchmarks"

// goBenchmarks are those that a bar is about, wherever in the repository they stand.
const goBenchmarks = "^Benchmark(Response|Fill|TokenIDs|ReadConversationTrace|ReadMooncake)$"

// runGo runs Go benchmarks on one processor.
func runGo(r *round) error {
	benchtime := "300ms"
	if r.quick {
		benchtime = "1x"
	}
	out, _, err := r.finish("go", "test", "-run", "^$", "-bench", goBenchmarks,
		"-benchtime", benchtime, "-cpu", "1", "./codec/...", "./engine/...")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for _, l := range parseBenchmarks(string(out)) {
		for _, m := range l.measures {
			r.put(l.who, m.name, m.value)
		}
	}
	return nil
}

// parseBenchmarks reads lines "BenchmarkName  100  12 ns/op  3 MB/s", as they are on one processor.
func parseBenchmarks(out string) (all []lineOf) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		l := lineOf{scenario: goName, who: strings.TrimPrefix(fields[0], "Benchmark")}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				l.measures = append(l.measures, measure{fields[i+1], v})
			}
		}
		all = append(all, l)
	}
	return all
}
