package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oneOf translates words; others are refused.
func oneOf(words map[string]string) func(string) (string, error) {
	return func(text string) (string, error) {
		if ours, ok := words[text]; ok {
			return ours, nil
		}
		return "", fmt.Errorf("there is no such thing here; there are %s", strings.Join(slices.Sorted(maps.Keys(words)), ", "))
	}
}

// namesOf lists the words of oneOf for the manual.
func namesOf(words map[string]string) string {
	var names []string
	for _, theirs := range slices.Sorted(maps.Keys(words)) {
		if ours := words[theirs]; ours != theirs {
			theirs += "` is `" + ours
		}
		names = append(names, "`"+theirs+"`")
	}
	return strings.Join(names, ", ") + "; others are refused"
}

// prefixed puts something before the value.
func prefixed(prefix string) func(string) (string, error) {
	return func(text string) (string, error) { return prefix + text, nil }
}

// unless is for a switch that is ours the other way round.
func unless(text string) (string, error) {
	on, err := strconv.ParseBool(text)
	return strconv.FormatBool(!on), err
}

// when is for a switch that stands for a value of ours.
func when(ours string) func(string) (string, error) {
	return func(text string) (string, error) {
		on, err := strconv.ParseBool(text)
		if !on {
			return "", err
		}
		return ours, nil
	}
}

// seconds reads a number of seconds.
func seconds(text string) (string, error) { return times(text, time.Second, "seconds") }

// secondsOrInf reads a number of seconds; without a bound there is nothing to set.
func secondsOrInf(text string) (string, error) {
	if isInf(text) {
		return "", nil
	}
	return seconds(text)
}

// milliseconds reads a number of milliseconds.
func milliseconds(text string) (string, error) { return times(text, time.Millisecond, "milliseconds") }

func times(text string, unit time.Duration, name string) (string, error) {
	n, err := strconv.ParseFloat(text, 64)
	if ns := n * float64(unit); err != nil || !(ns >= 0) || ns > math.MaxInt64/2 {
		return "", fmt.Errorf("want a number of %s, not below 0", name)
	}
	return time.Duration(math.Round(n * float64(unit))).String(), nil
}

// through makes an end that excludes its instant of one that includes it.
func through(read func(string) (string, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		ours, err := read(text)
		if err != nil {
			return "", err
		}
		d, err := time.ParseDuration(ours)
		return (d + time.Nanosecond).String(), err
	}
}

// rateOrInf reads a rate; an infinite one sends everything at once.
func rateOrInf(text string) (string, error) {
	if isInf(text) {
		return rateMax, nil
	}
	return text, nil
}

func isInf(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && math.IsInf(f, 1)
}

// objective makes trace-replayer's objectives, in seconds, those of --goodput, in milliseconds.
func objective(metric string) func(string) (string, error) {
	return func(text string) (string, error) {
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s > 0) || math.IsInf(s, 0) {
			return "", fmt.Errorf("want a number of seconds above 0")
		}
		return metric + ":" + strconv.FormatFloat(math.Round(s*1e9)/1e6, 'f', -1, 64), nil
	}
}

// folderOf makes a directory of the path of a file.
func folderOf(path string) (string, error) {
	folder := strings.TrimSuffix(path, ".jsonl")
	if folder == "" || strings.HasSuffix(folder, "/") {
		return "", fmt.Errorf("want the path of a file or a directory")
	}
	return folder, nil
}
