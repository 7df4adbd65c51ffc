package main

import (
	"fmt"
	"strconv"
	"strings"
)

// goBenchmark is one line of `go test -bench`: the values by their units, such as MB/s or events/s.
type goBenchmark struct {
	name   string // without the number of processors
	values map[string]float64
}

// benchmarks runs Go benchmarks of a package on one processor.
func (r *round) benchmarks(pkg, pattern string) ([]goBenchmark, error) {
	benchtime := "300ms"
	if r.quick {
		benchtime = "1x"
	}
	out, _, err := r.finish(nil, "go", "test", "-run", "^$", "-bench", pattern, "-benchtime", benchtime, "-cpu", "1", pkg)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(string(out), 10))
	}
	return parseBenchmarks(string(out)), nil
}

// parseBenchmarks reads lines "BenchmarkName-8  100  12 ns/op  3 MB/s".
func parseBenchmarks(out string) []goBenchmark {
	var all []goBenchmark
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			if _, err := strconv.Atoi(name[at+1:]); err == nil {
				name = name[:at]
			}
		}
		b := goBenchmark{name, map[string]float64{}}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				b.values[fields[i+1]] = v
			}
		}
		all = append(all, b)
	}
	return all
}

// putBenchmarks notes one unit of some benchmarks, times factor.
func (r *round) putBenchmarks(who, pkg, pattern, unitName string, factor float64, u unit) error {
	all, err := r.benchmarks(pkg, pattern)
	if err != nil {
		return err
	}
	for _, b := range all {
		if v, ok := b.values[unitName]; ok {
			r.put(who, b.name, u, v*factor)
		}
	}
	return nil
}
