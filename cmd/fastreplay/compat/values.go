package compat

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// later is the value of names that Translate reads when it has all of them.
const later = "later"

// convert makes a value of ours out of one of the other tool's, as the table says; "" = nothing to set.
func (n *Name) convert(text string) (string, error) {
	switch n.value {
	case "":
		return text, nil
	case "seconds":
		return duration(text, time.Second, 0)
	case "secondsOrInf":
		if infinite(text) {
			return "", nil
		}
		return duration(text, time.Second, 0)
	case "milliseconds":
		return duration(text, time.Millisecond, 0)
	case "throughMilliseconds": // an end that includes its instant; ours excludes it
		return duration(text, time.Millisecond, 1)
	case "rateOrInf":
		if infinite(text) {
			return "max", nil
		}
		return text, nil
	case "not": // a switch that is ours the other way round
		on, err := strconv.ParseBool(text)
		return strconv.FormatBool(!on), err
	case "maxTokens": // a bound of all answers' lengths; -1 leaves each row its own
		if text == "-1" {
			return "", nil
		}
		return "max_tokens:" + text, nil
	case "folder": // the directory that the path of a file stands for
		folder := strings.TrimSuffix(text, ".jsonl")
		if folder == "" || strings.HasSuffix(folder, "/") {
			return "", errors.New("want the path of a file or a directory")
		}
		return folder, nil
	}
	switch {
	case n.words != nil:
		return n.translate(text)
	case strings.Contains(n.value, "{}"):
		return strings.Replace(n.value, "{}", text, 1), nil
	case strings.Contains(n.value, "{ms}"):
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s > 0) || math.IsInf(s, 0) {
			return "", errors.New("want a number of seconds above 0")
		}
		ms := strconv.FormatFloat(math.Round(s*1e9)/1e6, 'f', -1, 64)
		return strings.Replace(n.value, "{ms}", ms, 1), nil
	}
	on, err := strconv.ParseBool(text) // a switch that stands for a value
	if !on {
		return "", err
	}
	return n.value, nil
}

// translate looks a word up in the name's list of THEIRS=OURS; others are refused.
func (n *Name) translate(word string) (string, error) {
	known := make([]string, len(n.words))
	for i, pair := range n.words {
		theirs, ours, differs := strings.Cut(pair, "=")
		if theirs == word && differs {
			return ours, nil
		}
		if theirs == word {
			return word, nil
		}
		known[i] = theirs
	}
	return "", fmt.Errorf("there is no such thing here; there are %s", strings.Join(known, ", "))
}

// byTheirs orders pairs of THEIRS=OURS.
func byTheirs(a, b string) int {
	a, _, _ = strings.Cut(a, "=")
	b, _, _ = strings.Cut(b, "=")
	return strings.Compare(a, b)
}

// duration reads a number of units, and adds more.
func duration(text string, unit, more time.Duration) (string, error) {
	n, err := strconv.ParseFloat(text, 64)
	ns := n * float64(unit)
	if err != nil || !(ns >= 0) || ns > math.MaxInt64/2 {
		name := map[time.Duration]string{
			time.Second:      "seconds",
			time.Millisecond: "milliseconds",
		}[unit]
		return "", fmt.Errorf("want a number of %s, not below 0", name)
	}
	return (time.Duration(math.Round(ns)) + more).String(), nil
}

func infinite(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && math.IsInf(f, 1)
}
