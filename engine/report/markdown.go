package report

import (
	"cmp"
	"io"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// Markdown writes what a run found for the summary of a pull request: the verdict, requests, latencies, objectives,
// and why the measurement is not valid. Text from outside is shown as format.Markdown has it.
func Markdown(w io.Writer, s *metrics.Summary) error {
	filler, err := format.NewFiller(s)
	if err != nil {
		return err
	}
	word, _ := Word(s)
	words := format.Present(s.Failed(), few(s), "measurement "+word)
	lines := []string{"### " + strings.Join(words, ", ") + ": " + format.Markdown(Title(s)), ""}
	facts := format.Present(
		filler.Fill("{requests.ok count} ok"),
		cmp.Or(format.Some(s.Requests.Failed, "failed"), "0 failed"),
		filler.Fill("{under_load.requests_per_s rate}/s"),
		filler.Fill("{under_load.output_tokens_per_s rate} output tokens/s"),
		filler.Fill("prefix hits {prefix_cache.hit_ratio percent}"),
		filler.Fill("ideal {prefix_cache.expected_hit_ratio percent}"),
	)
	lines = append(lines, format.Markdown(strings.Join(facts, ", ")), "")
	var rows [][]string
	for _, l := range shownLatencies(s, metrics.OnScreen) {
		row := []string{l.label}
		for _, n := range l.numbers(s) {
			switch n.name {
			case "p50", "p90", "p99", "max":
				row = append(row, strings.TrimSpace(n.mark+format.Duration(n.ns, 3)+" "+n.interval))
			}
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		lines = append(lines, format.MarkdownTable([]string{"", "p50", "p90", "p99", "max"}, rows))
	}
	for _, text := range objectiveLines(&s.Verdict) {
		lines = append(lines, "- "+format.Markdown(text))
	}
	for _, text := range format.Present(s.FailedWhere()) {
		lines = append(lines, "- failed: "+format.Markdown(text))
	}
	for _, r := range s.Verdict.Reasons {
		lines = append(lines, "- "+string(r.Grade)+": "+format.Markdown(r.String()))
	}
	_, err = io.WriteString(w, strings.TrimRight(strings.Join(lines, "\n"), "\n")+"\n")
	return err
}

// Annotations are what GitHub shows beside a job: what fails it, and what it has to know. A demo that works has none.
func Annotations(s *metrics.Summary) (lines []string) {
	if DemoWorked(s) {
		return nil
	}
	for _, r := range s.Verdict.Reasons {
		level := "warning"
		if r.Grade == metrics.Invalid {
			level = "error"
		}
		lines = append(lines, format.Annotation(level, strings.ToUpper(string(r.Grade))+" "+r.String()))
	}
	for _, o := range s.Verdict.Objectives {
		if !o.Met {
			word := "MISSED "
			if o.Undecided() {
				word = "UNDECIDED "
			}
			lines = append(lines, format.Annotation("error", word+o.Text+" ("+verdict.Outcome(&o)+")"))
		}
	}
	if failed := s.FailedWhere(); failed != "" {
		lines = append(lines, format.Annotation("warning", "FAILED "+failed))
	}
	return lines
}
