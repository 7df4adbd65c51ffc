package export

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// What systems of continuous integration read: Markdown for a pull request, JUnit's XML, CSV and OpenMetrics. Numbers
// have the names of --require.

func writeMarkdown(w io.Writer, r *results) error { return report.Markdown(w, r.summary) }

// writeCSV writes every record, with the keys of requests.jsonl as columns; what is absent is empty.
func writeCSV(w io.Writer, r *results) error {
	keys := record.Keys()
	row := make([]string, len(keys))
	for i := range keys {
		row[i] = keys[i].Name
	}
	out := csv.NewWriter(w)
	err := out.Write(row)
	for rec, bad := range report.Checked(r.dir, r.summary) {
		if bad != nil || err != nil {
			return cmp.Or(err, bad)
		}
		for i := range keys {
			row[i] = cell(&keys[i], rec)
		}
		err = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

// inert is a name that neither a terminal nor a spreadsheet obeys: one that begins as a formula does has an apostrophe
// before it (https://owasp.org/www-community/attacks/CSV_Injection).
func inert(name string) string {
	name = format.Visible(name)
	if name != "" && strings.Contains("=+-@", name[:1]) {
		return "'" + name
	}
	return name
}

// cell is a value as the line of JSON has it, without quotes and [inert]; "" if it is absent.
func cell(k *record.Key, r *record.Record) string {
	switch n, text := k.Value(r); {
	case k.Kind == record.Text:
		return inert(text)
	case n == record.None:
		return ""
	case k.Kind == record.Milliseconds:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 6, 64)
	case k.Kind == record.Date:
		return time.UnixMicro(n).UTC().Format("2006-01-02T15:04:05.000000Z")
	default:
		return strconv.FormatInt(n, 10)
	}
}

// writeQuantities writes whether the measurement is valid, and all that --require can bound: name, unit and value. A
// rate is per second.
func writeQuantities(w io.Writer, r *results) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"name", "unit", "value"}, {"measurement_valid", "0 or 1", "1"}}
	if !r.summary.Verdict.Valid {
		rows[1][2] = "0"
	}
	for q := range verdict.Values(r.summary) {
		rows = append(rows, []string{q.Name, q.Unit, strconv.FormatFloat(q.Value, 'f', -1, 64)})
	}
	return out.WriteAll(rows)
}

// writeJUnit writes a test suite as Jenkins and GitLab read it. It has a case for the measurement, which is an error if
// it is invalid, and one for each objective. One that is missed has failed; one that too few values decide is an error.
func writeJUnit(w io.Writer, r *results) error {
	s := r.summary
	class := html.EscapeString("fastreplay." + report.Title(s))
	counts := map[string]int{}
	var cases strings.Builder
	add := func(name, kind, text string) {
		counts[kind]++
		fmt.Fprintf(&cases, "    <testcase classname=\"%s\" name=\"%s\" time=\"0\">", class, visibleXML(name))
		if kind != "" {
			fmt.Fprintf(&cases, "<%s message=\"%s\"/>", kind, visibleXML(text))
		}
		cases.WriteString("</testcase>\n")
	}
	kind := ""
	if s.Verdict.Measurement == metrics.Invalid {
		kind = "error"
	}
	add("the measurement can be used", kind, r.verdict())
	for _, o := range s.Verdict.Objectives {
		kind := "failure"
		if o.Met {
			kind = ""
		} else if o.Undecided() {
			kind = "error"
		}
		add(o.Text, kind, verdict.Outcome(&o))
	}
	_, err := fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="fastreplay" tests="%d" failures="%d" errors="%d" skipped="0" time="%g" timestamp="%s">
%s  </testsuite>
</testsuites>
`, len(s.Verdict.Objectives)+1, counts["failure"], counts["error"], s.Run.DurationS,
		s.Run.StartedAt.UTC().Format("2006-01-02T15:04:05"), cases.String())
	return err
}

// visibleXML is text that may stand in an attribute.
func visibleXML(text string) string { return html.EscapeString(format.Visible(text)) }

// writeOpenMetrics writes gauges of all that --require can bound, in seconds, as shares and per second.
func writeOpenMetrics(w io.Writer, r *results) error {
	s := r.summary
	var page format.Exposition
	one := func(name, help string, v float64, labels ...string) {
		page.Value(page.Head(name, "", help), v, labels...)
	}
	bit := map[bool]float64{true: 1}
	one("run", "The run.", 1, "version", s.Run.Version, "title", report.Title(s), "model", s.Run.Model)
	one("duration_seconds", "From the start to the end of the last request.", s.Run.DurationS)
	one("measurement_valid", "1 if the numbers can be used, else 0.", bit[s.Verdict.Valid])
	name := page.Head("requests", "", "Requests by what became of them.")
	for _, state := range []struct {
		name string
		n    int64
	}{{"planned", s.Requests.Planned}, {"ok", s.Requests.OK}, {"failed", s.Requests.Failed}} {
		page.Value(name, float64(state.n), "state", state.name)
	}
	if len(s.Verdict.Objectives) > 0 {
		name = page.Head("objective_met", "", "1 if the objective is met, 0 if it is missed or too few values tell.")
	}
	for _, o := range s.Verdict.Objectives {
		page.Value(name, bit[o.Met], "objective", o.Text)
	}
	last := ""
	for q := range verdict.Values(s) {
		switch q.Unit {
		case "ms":
			latency, statistic, _ := strings.Cut(q.Name, ".")
			if latency != last {
				last = latency
				name = page.Head(latency+"_seconds", "", "A latency or a lateness: percentiles, maximum, mean.")
			}
			page.Value(name, q.Value/1e3, "statistic", statistic)
		case "share":
			one(q.Name+"_ratio", "A share, 0 to 1.", q.Value)
		default:
			per := strings.NewReplacer(".", "_", "_per_s", "_per_second").Replace(q.Name)
			one(per, "A rate of ok requests.", q.Value)
		}
	}
	_, err := io.WriteString(w, page.String()+"# EOF\n")
	return err
}
