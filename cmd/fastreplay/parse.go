package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// parseOverhead reads HEAD,TAIL; nil of nothing.
func parseOverhead(text string) (*workload.Overhead, error) {
	if text == "" {
		return nil, nil
	}
	head, tail, err := parsePair(text, ",", func(text string) (uint64, error) {
		return strconv.ParseUint(strings.TrimSpace(text), 10, 20)
	})
	if err != nil {
		return nil, errors.New("want HEAD,TAIL in tokens, such as 20,5")
	}
	return &workload.Overhead{Head: int(head), Tail: int(tail)}, nil
}

// parsePair reads two values with a separator between them.
func parsePair[T any](text, between string, parse func(string) (T, error)) (a, b T, err error) {
	first, second, _ := strings.Cut(text, between)
	a, errFirst := parse(first)
	b, errSecond := parse(second)
	return a, b, errors.Join(errFirst, errSecond)
}

// parseVerified reads how many prompts are to be counted again; -1 = all.
func parseVerified(text string) (int, error) {
	switch text {
	case "":
		return setup.DefaultVerified, nil
	case "all":
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, errors.New("want a number of prompts, or all")
	}
	return n, nil
}

// parseTokens reads a number of tokens such as 3000000, 300k, 3M or 1.5G.
func parseTokens(text string) (int64, error) {
	if n, ok := parseAmount(text, map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}); ok && n <= 1<<52 {
		return n, nil
	}
	return 0, errors.New("want a number of tokens such as 3000000, 300k or 3M")
}

// parseBytes reads a size such as 500MB, 8GiB or 1048576.
func parseBytes(text string) (int64, error) {
	units := map[string]float64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10,
		"MiB": 1 << 20,
		"GiB": 1 << 30, "TiB": 1 << 40, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
	if n, ok := parseAmount(text, units); ok {
		return n, nil
	}
	return 0, errors.New("want bytes, or a number with kB, MB, GB, KiB, MiB or GiB")
}

// parseAmount reads a number from 1 to 2^62 with the name of a unit behind it.
func parseAmount(text string, units map[string]float64) (n int64, ok bool) {
	number := strings.TrimRightFunc(text, unicode.IsLetter)
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	v *= units[text[len(number):]]
	return int64(v), err == nil && v >= 1 && v <= 1<<62
}

// spinAuto is the value of --spin that lets the waiter find out.
const spinAuto = "auto"

// parseSpin reads a time, or spinAuto.
func parseSpin(text string) (time.Duration, error) {
	if text == spinAuto {
		return sched.AutoSpin, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("want auto, or a time of 0 or more, such as 100us")
	}
	return d, nil
}

// startMoment is what --start-at says: when the first instant of a run is. The zero value is as soon as it is ready.
type startMoment struct {
	at    time.Time
	asked bool // standard input has the moment
}

func parseStart(text string) (s startMoment, err error) {
	switch text = strings.TrimSpace(text); text {
	case "-":
		s.asked = true
	case "now": // when the run is ready
	default:
		if s.at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return s, errors.New("want a moment, such as 2026-01-02T15:04:05.5Z, or now, or -")
		}
	}
	return s, nil
}

// parseAssumed reads TTFT,TPOT.
func parseAssumed(text string) (a sched.AssumedLatency, err error) {
	if a.TTFT, a.TPOT, err = parsePair(text, ",", time.ParseDuration); err != nil {
		err = errors.New("want TTFT,TPOT, such as 200ms,10ms")
	}
	return a, err
}

// rateMax is the --rate that releases everything at once.
const rateMax = "max"

// parseRate reads requests per second.
func parseRate(text string) (sched.Rate, error) {
	perSecond, err := strconv.ParseFloat(text, 64)
	if err != nil {
		err = fmt.Errorf("--rate %q: want requests per second, or max", text)
	} else if math.IsInf(perSecond, 1) {
		err = fmt.Errorf("--rate %s: to send everything at once, say --rate %s", text, rateMax)
	}
	return sched.Steady(perSecond), err
}

// parseRamp reads FROM:TO:TIME.
func parseRamp(text string) (rate sched.Rate, err error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 {
		from, errFrom := strconv.ParseFloat(parts[0], 64)
		to, errTo := strconv.ParseFloat(parts[1], 64)
		over, errOver := time.ParseDuration(parts[2])
		if errors.Join(errFrom, errTo, errOver) == nil && over > 0 {
			return sched.Rate{From: from, To: to, Over: over}, nil
		}
	}
	return rate, fmt.Errorf("--ramp %q: want FROM:TO:TIME in requests per second, such as 10:500:60s", text)
}

// setProcess reads --arrival: constant, poisson, gamma or gamma:B. Without a word the process is the usual one.
func setProcess(a *sched.Arrivals, text string, usual sched.Process) (err error) {
	name, shape, shaped := strings.Cut(text, ":")
	a.Process = cmp.Or(sched.Process(name), usual)
	a.Burstiness = 1
	if shaped {
		a.Burstiness, err = strconv.ParseFloat(shape, 64)
	}
	if err != nil || shaped && a.Process != sched.Gamma || !slices.Contains(sched.Processes(), a.Process) ||
		!(a.Burstiness > 0) {
		return fmt.Errorf(
			"--arrival %q: want constant, poisson, gamma or gamma:B with a number B above 0, such as gamma:0.5",
			text,
		)
	}
	return nil
}

// parseShare reads a number such as 0.2 or 20%.
func parseShare(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if isPercent {
		share /= 100
	}
	return share, err
}

// parseSnapshot reads FROM:TO, two percentages or shares.
func parseSnapshot(text string) (*workload.Snapshot, error) {
	var s workload.Snapshot
	var err error
	s.From, s.To, err = parsePair(text, ":", parseShare)
	switch {
	case err != nil || !(min(s.From, s.To) >= 0 && max(s.From, s.To) <= 1):
		return nil, errors.New("want two shares of a job's time, such as 25%:75%")
	case s.From > s.To:
		return nil, errors.New("want the smaller share first, such as 25%:75%")
	}
	return &s, nil
}

// parseIdleCap reads TIME, or system=TIME, tree=TIME or both with a comma; a number without a unit is seconds.
func parseIdleCap(text string) (c setup.IdleCap, err error) {
	for part := range strings.SplitSeq(text, ",") {
		rest, system := strings.CutPrefix(part, "system=")
		rest, tree := strings.CutPrefix(rest, "tree=")
		to := &c.Most
		if tree {
			to = &c.Tree
		}
		again := *to > 0 || part != text && !system && !tree
		if err = (seconds{to}).Set(rest); err != nil || *to <= 0 || again || system && tree {
			return c, errors.New(
				"want a time above 0, system=TIME, tree=TIME or both, such as 10s or tree=300s,system=10s")
		}
		c.System = c.System || system
	}
	return c, nil
}

// sessionWords are how values of --sessions begin.
func sessionWords() []string {
	return []string{
		string(setup.SessionsStrict),
		string(setup.SessionsGated),
		string(setup.SessionsThink),
		string(setup.SessionsLanes) + "=",
	}
}
