package compat

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// conversions returns the functions that the table names.
func conversions() map[string]func(string) (string, error) {
	seconds := func(text string) (string, error) { return duration(text, time.Second, "seconds", 0) }
	return map[string]func(string) (string, error){
		"seconds": seconds, "secondsOrInf": orInf("", seconds), "rateOrInf": orInf("max", inside("{}")),
		"milliseconds": func(text string) (string, error) {
			return duration(text, time.Millisecond, "milliseconds", 0)
		},
		"throughMilliseconds": func(text string) (string, error) {
			return duration(text, time.Millisecond, "milliseconds", 1)
		},
		"not": func(text string) (string, error) { // a switch that is ours the other way round
			on, err := strconv.ParseBool(text)
			return strconv.FormatBool(!on), err
		},
		"maxTokens": func(text string) (string, error) { // a bound of all answers' lengths; -1 leaves each row its own
			if text == "-1" {
				return "", nil
			}
			return "max_tokens:" + text, nil
		},
		"folder": func(path string) (string, error) { // the directory that the path of a file stands for
			folder := strings.TrimSuffix(path, ".jsonl")
			if folder == "" || strings.HasSuffix(folder, "/") {
				return "", fmt.Errorf("want the path of a file or a directory")
			}
			return folder, nil
		},
		// what it stands for is set when the command line was read; see Line.scenario
		"scenario": func(text string) (string, error) {
			if text != agentX && text != agentXMVP {
				return "", fmt.Errorf("there is no such scenario here; there are %s and %s", agentX, agentXMVP)
			}
			return "", nil
		},
	}
}

// oneOf translates the words of a list of THEIRS=OURS; others are refused.
func oneOf(list string) func(string) (string, error) {
	return func(text string) (string, error) {
		var known []string
		for pair := range strings.FieldsSeq(list) {
			theirs, ours, differs := strings.Cut(pair, "=")
			if theirs == text && differs {
				return ours, nil
			}
			if theirs == text {
				return text, nil
			}
			known = append(known, theirs)
		}
		slices.Sort(known)
		return "", fmt.Errorf("there is no such thing here; there are %s", strings.Join(known, ", "))
	}
}

// listOf lists the words of oneOf for the manual.
func listOf(list string) string {
	words := strings.Fields(list)
	slices.SortFunc(words, func(a, b string) int {
		return strings.Compare(strings.SplitN(a, "=", 2)[0], strings.SplitN(b, "=", 2)[0])
	})
	return "`" + strings.ReplaceAll(strings.Join(words, "`, `"), "=", "` is `") + "`; others are refused"
}

// inside puts the value into a text: in the place of {} as it is, in that of {ms} as milliseconds made of seconds.
func inside(text string) func(string) (string, error) {
	return func(value string) (string, error) {
		if strings.Contains(text, "{}") {
			return strings.Replace(text, "{}", value, 1), nil
		}
		s, err := strconv.ParseFloat(value, 64)
		if err != nil || !(s > 0) || math.IsInf(s, 0) {
			return "", fmt.Errorf("want a number of seconds above 0")
		}
		return strings.Replace(text, "{ms}", strconv.FormatFloat(math.Round(s*1e9)/1e6, 'f', -1, 64), 1), nil
	}
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

// duration reads a number of units; more is added to it, which makes an end that excludes its instant of one that
// includes it.
func duration(text string, unit time.Duration, name string, more time.Duration) (string, error) {
	n, err := strconv.ParseFloat(text, 64)
	if ns := n * float64(unit); err != nil || !(ns >= 0) || ns > math.MaxInt64/2 {
		return "", fmt.Errorf("want a number of %s, not below 0", name)
	}
	return (time.Duration(math.Round(n*float64(unit))) + more).String(), nil
}

// orInf makes ours of an infinite number; others are converted.
func orInf(ours string, finite func(string) (string, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		if f, err := strconv.ParseFloat(text, 64); err == nil && math.IsInf(f, 1) {
			return ours, nil
		}
		return finite(text)
	}
}
