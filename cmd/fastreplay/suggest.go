package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unknownFlag adds the nearest known name to the error about one that is not known.
func unknownFlag(c *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		return fmt.Errorf("%w%s", err, didYouMean(c.Flags(), unknown.GetSpecifiedName(), "--"))
	}
	return err
}

// didYouMean names the flag that is nearest to a name, if one is near; dashes go before it.
func didYouMean(flags *pflag.FlagSet, name, dashes string) string {
	best, least := "", 1+max(2, len(name)/3)
	flags.VisitAll(func(f *pflag.Flag) {
		if d := distance(strings.ToLower(strings.ReplaceAll(name, "_", "-")), f.Name); d < least {
			best, least = f.Name, d
		}
	})
	if best == "" {
		return "; see `fastreplay --help` and `fastreplay profile --help`"
	}
	return fmt.Sprintf("; did you mean %s%s?", dashes, best)
}

// distance is how many bytes must be put in, left out or changed to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := above
			if a[i] != b[j] {
				change++
			}
			above = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
