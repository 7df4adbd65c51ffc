package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// key names a measure: what was measured of whom in which scenario. A measure's name ends with its unit, such as -ns.
type key struct{ scenario, who, measure string }

// lineOf is what was measured of one client in one run.
type lineOf struct {
	scenario, who string
	measures      []measure
}

type measure struct {
	name  string
	value float64
}

// results are what one binary's runs have measured.
type results struct {
	out     io.Writer
	file    *os.File
	values  map[key][]float64 // by run; a run without one has NaN
	ran     map[string]int    // runs of each scenario
	skipped map[string]bool
}

// open prints the machine. With a directory all lines go to a file there, too.
func (r *results) open(stdout io.Writer, dir, name string) error {
	r.out = stdout
	r.values = map[key][]float64{}
	r.ran = map[string]int{}
	r.skipped = map[string]bool{}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		var err error
		if r.file, err = os.Create(filepath.Join(dir, name+".txt")); err != nil {
			return err
		}
		r.out = io.MultiWriter(stdout, r.file)
	}
	said := func(line ...string) string {
		out, _ := exec.Command(line[0], line[1:]...).Output()
		return strings.TrimSpace(string(out))
	}
	load, _ := os.ReadFile("/proc/loadavg")
	_, cpu, _ := strings.Cut(said("grep", "-m1", "model name", "/proc/cpuinfo"), ": ")
	// What differs between two runs on one machine is a comment, or benchstat would not compare them.
	fmt.Fprintf(r.out, "goos: %s\ngoarch: %s\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, cpu)
	fmt.Fprintf(r.out, "# %d cores, %s, %s, commit %s, %s, load before %s\n# scripts/bench.sh %s\n",
		runtime.NumCPU(), said("uname", "-srm"), runtime.Version(),
		said("git", "describe", "--always", "--dirty=+", "--abbrev=12"),
		time.Now().UTC().Format(time.RFC3339), strings.TrimSpace(string(load)), strings.Join(os.Args[1:], " "))
	return nil
}

// add prints the lines of a run and keeps their values.
func (r *results) add(lines []lineOf) {
	for _, l := range lines {
		fmt.Fprintf(r.out, "BenchmarkSuite/%s/%s 1", l.scenario, strings.ReplaceAll(l.who, " ", "_"))
		for _, m := range l.measures {
			fmt.Fprintf(r.out, " %s %s", strconv.FormatFloat(m.value, 'g', -1, 64), m.name)
			k := key{l.scenario, l.who, m.name}
			for len(r.values[k]) < r.ran[l.scenario] {
				r.values[k] = append(r.values[k], math.NaN())
			}
			r.values[k] = append(r.values[k], m.value)
		}
		fmt.Fprintln(r.out)
	}
	if len(lines) > 0 {
		r.ran[lines[0].scenario]++
	}
}

// skip notes, once, what was not measured and why.
func (r *results) skip(format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n# ")
	if !r.skipped[line] {
		r.skipped[line] = true
		fmt.Fprintf(r.out, "# not measured: %s\n", line)
	}
}

// bar is what a measure must reach: at most, or at least, limit. With by set, the ratio of the two within each run
// must.
type bar struct {
	of, by  key
	limit   float64
	atLeast bool
}

// judge returns each run's value for a bar, and whether their median reaches it.
func (r *results) judge(b bar) (values []float64, met bool) {
	values = slices.Clone(r.values[b.of])
	if b.by != (key{}) {
		by := r.values[b.by]
		values = values[:min(len(values), len(by))]
		for i := range values {
			values[i] /= by[i]
		}
	}
	values = slices.DeleteFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	slices.Sort(values)
	m := median(values)
	return values, len(values) > 0 && (m == b.limit || m > b.limit == b.atLeast)
}

// printBars prints each bar of the scenarios that ran, with the median and the extremes of what was measured.
func (r *results) printBars(all []bar) {
	for _, b := range all {
		if r.ran[b.of.scenario] == 0 {
			continue
		}
		values, met := r.judge(b)
		mark := "no "
		sign := "<="
		unit := b.of.measure
		than := ""
		if met {
			mark = "yes"
		} else if len(values) == 0 {
			mark = "?  "
			values = []float64{math.NaN()}
		}
		if b.atLeast {
			sign = ">="
		}
		if b.by != (key{}) {
			unit = "ratio"
			than = " × that of " + b.by.who
		}
		fmt.Fprintf(r.out, "# bar %s %s, %s: %s is %s (%s to %s), bar %s %s%s\n",
			mark, b.of.scenario, b.of.who, b.of.measure,
			inUnit(median(values), unit), inUnit(values[0], unit), inUnit(values[len(values)-1], unit),
			sign, inUnit(b.limit, unit), than)
	}
}

// inUnit writes a value as its measure's name says it is counted.
func inUnit(v float64, name string) string {
	switch {
	case math.IsNaN(v):
		return "not measured"
	case strings.HasSuffix(name, "-ns"):
		return time.Duration(v).String()
	case v >= 1e5:
		return fmt.Sprintf("%.3gM", v/1e6)
	}
	return fmt.Sprintf("%.3g", v)
}

// median is the middle of ascending values, or the mean of the two in the middle; NaN without values.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// percentile is the nearest-rank percentile of ascending values, q in 0..1; NaN without values.
func percentile(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return float64(sorted[stats.Rank(int64(len(sorted)), int64(1000*q))-1])
}
