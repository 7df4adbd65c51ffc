package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// info adds to what the run found what was asked for: the part of the summary that the collector does not count.
func (r *replay) info(found engine.Result) metrics.Summary {
	found.Client.LoadS, found.Client.PrebuildS = r.loadS, r.buildS
	if found.Turns != nil {
		found.Turns.Sessions = string(r.o.sessions.mode)
	}
	return metrics.Summary{
		Run: r.runInfo(found.Run), Workload: r.workloadInfo(found.LeftOut), Client: found.Client,
		Requests:    metrics.Requests{Planned: int64(r.work.Requests() + len(r.leftOut) - len(found.LeftOut))},
		Connections: found.Connections, Writes: found.Writes, Cap: found.Cap, Turns: found.Turns, History: found.History, BuildAhead: found.BuildAhead,
		Amplify: r.amplify, Limits: r.o.limits, Notes: slices.Concat(r.notes, r.leftOutNotes(found.LeftOut), placementNotes(found.Placement)),
	}
}

func placementNotes(p sched.Placement) []string {
	if p.FIFO || p.Refused == "" {
		return nil
	}
	return []string{fmt.Sprintf("the sending thread ran without SCHED_FIFO (%s), under %s; root or CAP_SYS_NICE make it more punctual", p.Refused, p)}
}

func (r *replay) runInfo(run metrics.Run) metrics.Run {
	run.Scale, run.Pace, run.Arrival, run.Warmup = r.o.pacing.scale, r.o.pacing.words(), r.o.pacing.summary(), int64(r.o.warmup)
	run.Targets, run.API, run.Model, run.Version = r.work.URLs(), r.o.api, r.shownModel(), buildVersion()
	run.Host, run.Options = thisHost(), givenFlags(r.line)
	return run
}

func (r *replay) workloadInfo(out []int32) metrics.Workload {
	t, n := r.trace, r.work.Requests()-len(out)
	w := metrics.Workload{
		Trace: t.Name, Format: t.Format, Rows: int64(t.FileRows), Requests: int64(n), Repeat: int64(r.o.pacing.repeat), BlockTokens: int64(t.BlockTokens),
		RepairedRows: int64(t.Lint.Repaired), DroppedRows: int64(t.Lint.Dropped), Fingerprint: r.work.Prebuilt.Fingerprint(r.work),
		Context: r.workload.Context, LeftOut: r.workload.LeftOut, Clipped: r.workload.Clipped, ClippedOff: r.workload.ClippedOff,
	}
	for i := range r.work.Requests() {
		if len(out) > 0 && int(out[0]) == i {
			out = out[1:]
			continue
		}
		if surplus := r.work.SurplusTokens(i); surplus > 0 {
			w.ShortRows++
			w.ShortSurplus += int64(surplus)
		}
		if r.work.Made(i) {
			w.InputTokens += int64(t.InputTokens[i])
		} else {
			w.Verbatims++
		}
		w.OutputTokens += int64(t.OutputTokens[i])
	}
	return w
}

// givenFlags are the flags as given under our names, but for what may be secret, and which of them a file set.
func givenFlags(line *compat.Line) map[string]any {
	given := map[string]any{}
	line.Flags.Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" { // as of other tools' names
			return
		}
		switch f.Name {
		case "header", "url", "scrape-url": // values may be secret; targets are listed without their queries
			given[f.Name] = fmt.Sprintf("%d given", len(f.Value.(pflag.SliceValue).GetSlice()))
		case "api-key":
			given[f.Name] = "given"
		case "endpoint":
			given[f.Name], _, _ = strings.Cut(f.Value.String(), "?")
		case "trace":
			given[f.Name] = strings.Join(f.Value.(pflag.SliceValue).GetSlice(), ", ")
		default:
			given[f.Name] = f.Value.String()
		}
	})
	if len(line.FromFile) > 0 {
		given["set_by_config"] = line.FromFile
	}
	return given
}

// thisHost describes the machine. What cannot be read is left out.
func thisHost() metrics.Host {
	h := metrics.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	h.Name, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	h.CPU = firstValue("/proc/cpuinfo", "model name")
	if kb, ok := strings.CutSuffix(firstValue("/proc/meminfo", "MemTotal"), " kB"); ok {
		if n, err := strconv.ParseInt(kb, 10, 64); err == nil {
			h.MemoryBytes = n << 10
		}
	}
	return h
}

// firstValue is the value of the first "key : value" line of a file under /proc; "" where there is none.
func firstValue(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
