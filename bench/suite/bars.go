package main

import (
	_ "embed"
	"strconv"
	"strings"
	"time"
)

//go:embed bars.txt
var barLines string

// allBars reads the bars, whose file says what a line means.
func allBars() (all []bar) {
	for line := range strings.Lines(barLines) {
		f := strings.Split(strings.TrimSpace(line), " | ")
		if len(f) < 4 {
			continue // a comment
		}
		sign, limit, _ := strings.Cut(f[3], " ")
		b := bar{of: key{f[0], f[1], f[2]}, atLeast: sign == ">="}
		if len(f) == 7 {
			b.by = key{f[4], f[5], f[6]}
		}
		d, err := time.ParseDuration(limit)
		b.limit = float64(d)
		if err != nil {
			b.limit, err = strconv.ParseFloat(limit, 64)
		}
		if err != nil {
			panic("BUG: bars.txt: " + line)
		}
		all = append(all, b)
	}
	return all
}
