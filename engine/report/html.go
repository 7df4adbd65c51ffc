package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// HTML writes the results in dir, whose summary is s, as one page that needs nothing else: no other file, no network.
// Numbers are those of the summary. Pictures are made of the records and of the servers' samples, so a killed run has
// them, too. If there are no records, the page has no pictures.
func HTML(w io.Writer, dir string, s *metrics.Summary) error {
	pictures, err := picturesOf(dir, s)
	if err != nil && !errors.Is(err, ErrNoResults) {
		return err
	}
	return pictures.write(w, dir, s)
}

// HTML is HTML of a run that has just ended, whose records p has seen, and which is t by time.
func (p *Pictures) HTML(w io.Writer, dir string, s *metrics.Summary, t *collect.Timeline) error {
	if err := p.complete(dir, s, t); err != nil {
		return err
	}
	return p.write(w, dir, s)
}

func (p *Pictures) write(w io.Writer, dir string, s *metrics.Summary) error {
	parts, err := partsOf(s)
	if err != nil {
		return err
	}
	for _, part := range parts {
		for _, row := range part.rows {
			if part.path == "routing.routers" {
				row[0] = s.Routing.Label(row[0])
			}
		}
	}
	cores := format.Many(s.Run.Host.CPUs, "core")
	verdict := verdictSection(s, p.stall(s))
	verdict.Tiles = p.tiles(s)
	d := chart.Document{
		Title: headline(s, &verdict),
		Under: format.Present(
			pageTitle(dir, s),
			s.Run.Model,
			s.Run.API,
			s.Workload.Format,
			s.Length(),
			format.Some(len(s.Shards), "shards"),
			"fastreplay "+s.Run.Version,
			"from "+s.Run.Host.Name+", "+cores,
		),
	}
	var notes chart.Section
	told := ""
	for _, f := range verdict.Findings {
		told += strings.Join(f.Lines, "\n")
	}
	others := slices.DeleteFunc(slices.Clone(s.Notes), func(note string) bool {
		return strings.Contains(told, note)
	})
	if len(others) > 0 {
		notes.Findings = []chart.Finding{{Lines: others}}
	}
	latencies := chart.Section{
		Title:  "Latencies",
		Tables: []chart.Table{latencyTable(s)},
		Note: "Latencies are of ok requests, counted from the moment of sending; " +
			"drift is how late requests left.",
	}
	places := []string{"targets", "instances.parts", "prefill_instances.parts", "endpoints.parts"}
	if s.Endpoints != nil && len(s.Endpoints.Parts) <= len(s.Targets) { // they are the targets, but for the dead
		places = places[:3]
	}
	targets := tablesOf(parts, targetColumns, places...)
	d.Add(verdict, notes, latencies)
	d.Add(chart.Section{
		Title:  "Shards",
		Tables: tablesOf(parts, "", "shards"),
	})
	d.Add(chart.Section{
		Title:  "Failures",
		Tables: tablesOf(parts, failureColumns, "requests.failures", "outages"),
	})
	d.Add(actionSection(s))
	d.Add(p.sections(s, targets)...)
	d.Add(jobSection(s, parts))
	d.Add(chart.Section{
		Title: "Tenants, models, classes",
		Tables: tablesOf(parts, ownerColumns, "owners.tenants.parts", "owners.models.parts", "owners.classes.parts",
			"owners.priorities.parts"),
	})
	d.Add(chart.Section{
		Title:  "Prefix cache and routing",
		Tables: tablesOf(parts, "", "prefix_cache", "prefix_cache.tiers.by_slowest", "routing.routers", "routing"),
	})
	d.Add(chart.Section{Title: "Numbers", Facts: factsOf(parts)}, flagSection(s), numbersSection(parts))
	for i := range d.Sections {
		nameTables(&d.Sections[i])
	}
	return d.Write(w)
}

// pageTitle distinguishes a run from others.
func pageTitle(dir string, s *metrics.Summary) string {
	title := Title(s)
	if s.Workload.Trace == "" {
		title = filepath.Base(dir) + paceOf(s) + " → " + whither(s)
	}
	if !s.Run.StartedAt.IsZero() {
		title += " · " + s.Run.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return title
}

func shortURL(url string) string {
	return strings.TrimPrefix(url, "http://")
}

// headline is one sentence that says of a run, if one reads nothing else, what is wrong, what was sent, and how soon
// answers came.
func headline(s *metrics.Summary, verdict *chart.Section) string {
	var clauses []string
	starving := ""
	for _, f := range verdict.Findings {
		switch {
		case f.Word == starvedWords(s):
			starving = f.Word
		case f.Grade != "":
			clauses = append(clauses, f.Word)
		}
	}
	if g := s.Goodput; g != nil && g.Share != nil && len(s.Verdict.Objectives) == 0 {
		clauses = append(clauses, format.Percent(*g.Share)+" of requests had "+bounds(s))
	}
	if !overloaded(s) {
		clauses = append(clauses, answered(s))
	}
	clauses = append(clauses, starving)
	others := ""
	if s.Requests.Failed > 0 {
		others = " of the others"
	}
	for _, t := range verdict.Tiles {
		if strings.HasSuffix(t.Name, " p50") {
			clauses = append(clauses, t.Name+others+" "+t.Value)
			others = ""
		}
	}
	inside := strings.NewReplacer("; Only", "; only", "; The", "; the", "; Slow", "; slow", "; Obj", "; obj")
	return format.Capitalised(inside.Replace(format.Title(clauses...)))
}

// answered says how many requests were answered, in what time and at what load, and that they left on time.
func answered(s *metrics.Summary) string {
	r := &s.Requests
	asked := r.Planned - r.Stopped
	who := "all " + format.Requests(r.OK)
	switch {
	case r.OK == 0 || r.Failed > 0:
		return ""
	case r.OK < fewRequests: // which stands before it
		who = "all"
	case r.OK < asked:
		who = format.Count(r.OK) + " of " + format.Requests(asked)
	}
	load := " at " + format.Number(s.UnderLoad.RequestsPerS, 3) + "/s"
	if s.Run.Concurrency+s.Run.Lanes > 0 {
		load = ", " + s.Run.Pace
	}
	text := who + " answered in " + s.Length() + load
	v := &s.Verdict
	planned := s.DriftUS != nil && s.Lateness.SlotsLostShare == nil
	if planned && waitedShare(s) <= starved && v.Valid && len(v.Unsafe) == 0 &&
		!slices.ContainsFunc(v.Reasons, ofMachine) {
		text += ", sent on time"
	}
	return text
}

// bounds are those of goodput.
func bounds(s *metrics.Summary) string {
	var all []string
	for _, o := range SLOsOf(s) {
		all = append(all, strings.TrimSpace(o.Value+" "+metrics.Latencies()[o.Latency].Label)+" ≤ "+
			strconv.FormatFloat(float64(o.LimitNS)/1e6, 'f', -1, 64)+" ms")
	}
	return strings.Join(all, ", ")
}

// overloaded reports whether the servers cannot carry the load.
func overloaded(s *metrics.Summary) bool {
	return slices.ContainsFunc(s.Trends, func(t metrics.Trend) bool { return t.Overload })
}

// verdictSection is what one reads first, the worst before the rest. That a measurement is valid praises no server, so
// it has no colour, and stands last.
func verdictSection(s *metrics.Summary, slow chart.Finding) chart.Section {
	v := &s.Verdict
	finding := chart.Finding{Grade: chart.Bad}
	switch {
	case s.Run.Demo && v.Valid, v.Measurement == metrics.Valid:
		finding.Grade = ""
		finding.Lines = []string{"The load left as planned, and the numbers can be used. " +
			"VALID does not say that the servers are good."}
	case v.Measurement == metrics.Limited:
		finding.Grade = chart.Warn
	}
	finding.Word = "Measurement " + strings.ToUpper(string(cmp.Or(v.Measurement, metrics.Invalid)))
	if s.Run.Demo && v.Valid {
		finding.Word += " · demo against a mock server"
	}
	if s.Run.Partial {
		finding.Word += " (partial run)"
	}
	for _, r := range v.Reasons {
		finding.Lines = append(finding.Lines, r.What)
		if r.Why != "" {
			finding.Lines = append(finding.Lines, "why: "+r.Why)
		}
		if r.Do != "" {
			finding.Lines = append(finding.Lines, "do: "+r.Do)
		}
	}
	var out chart.Section
	if word := s.Failed(); word != "" {
		share := float64(s.Requests.Failed) / float64(s.Requests.Failed+s.Requests.OK)
		word = strings.Replace(word, " failed", " requests failed ("+format.Percent(share)+")", 1)
		if s.Requests.OK == 0 {
			word = "All " + format.Requests(s.Requests.Failed) + " failed"
		}
		down := map[string]bool{}
		for i := range s.Outages {
			down[s.Outages[i].Target] = true
		}
		if len(down) > 0 && len(s.Targets) > 1 {
			word += fmt.Sprintf("; %d of %s was down", len(down), format.Many(len(s.Targets), "server"))
		}
		failed := chart.Finding{Grade: chart.Bad, Word: word, Lines: []string{s.FailedWhere()}}
		out.Findings = append(out.Findings, failed)
	}
	out.Findings = append(out.Findings, finding)
	if 10*s.Requests.Failed < s.Requests.Planned { // what is not valid tells more than few failures
		slices.Reverse(out.Findings)
	}
	if n := s.Requests.OK; n > 0 && n < fewRequests {
		ended := ""
		if s.Requests.Failed > 0 {
			ended = " ended ok"
		}
		out.Findings = append(out.Findings, chart.Finding{
			Grade: chart.Warn,
			Word:  "Only " + format.Requests(n) + ended,
			Lines: []string{"Other runs may give quite other numbers. p99 of fewer than 100 values is their largest."},
		})
	}
	if len(s.Trends) > 0 {
		over := chart.Finding{Grade: chart.Warn, Word: s.Trends[0].Short()}
		if overloaded(s) {
			over.Word = "The servers cannot carry the load"
		}
		for i := range s.Trends {
			over.Lines = append(over.Lines, s.Trends[i].Words())
		}
		out.Findings = append(out.Findings, over)
	}
	if slow.Word != "" {
		out.Findings = append(out.Findings, slow)
	}
	if len(v.Objectives) > 0 {
		wanted := chart.Finding{Grade: chart.Good, Word: "Objectives met", Lines: objectiveLines(v)}
		all := format.Many(len(v.Objectives), "objective")
		if n := v.Missed(); n > 0 {
			wanted.Grade = chart.Bad
			wanted.Word = fmt.Sprintf("%d of %s missed: %s", n, all, strings.TrimPrefix(wanted.Lines[0], "✗ "))
		} else if n := v.Undecided(); n > 0 {
			wanted.Grade = chart.Warn
			wanted.Word = fmt.Sprintf("%d of %s undecided", n, all)
		}
		out.Findings = append(out.Findings, wanted)
	}
	i := slices.Index(s.NoteCodes, "local_server")
	if word := starvedWords(s); i >= 0 && word != "" {
		out.Findings = append(out.Findings, chart.Finding{Grade: chart.Warn, Word: word, Lines: s.Notes[i : i+1]})
	}
	slices.SortStableFunc(out.Findings, func(a, b chart.Finding) int {
		grades := []string{chart.Bad, chart.Warn, chart.Good, ""}
		return cmp.Compare(slices.Index(grades, a.Grade), slices.Index(grades, b.Grade))
	})
	return out
}

// starvedWords say how long servers on this machine waited for a core; "" up to the share that is starved.
func starvedWords(s *metrics.Summary) string {
	share := waitedShare(s)
	if share <= starved {
		return ""
	}
	return "The server waited at least " + format.PercentTo(share, 2) + " of the run for a core"
}

// objectiveLines are what the user wanted, the missed first.
func objectiveLines(v *metrics.Verdict) []string {
	var met, undecided, missed []string
	for _, o := range v.Objectives {
		text := o.Text + " (" + verdict.Outcome(&o) + ")"
		switch {
		case o.Met:
			met = append(met, "✓ "+text)
		case o.Undecided():
			undecided = append(undecided, "? "+text)
		default:
			missed = append(missed, "✗ "+text)
		}
	}
	return slices.Concat(missed, undecided, met)
}

// firstFacts are their names for people and their keys in summary.json, at least two spaces apart. Rates are those
// under load.
const firstFacts = `requests                         requests.planned
ok                               requests.ok
failed                           requests.failed
seconds                          run.duration_s
ok requests/s                    rates.requests_per_s
input tokens/s                   rates.input_tokens_per_s
output tokens/s                  rates.output_tokens_per_s
seconds under load               rates.until_s
in flight, mean                  in_flight_mean
interactivity p75, tokens/s      interactivity.p75_tokens_per_s
interactivity p90, tokens/s      interactivity.p90_tokens_per_s
output tokens/s a user           interactivity.output_tokens_per_s_per_user
output tokens/s a GPU            per_gpu.output_tokens_per_s
from second                      window.from_s
to second                        window.to_s
cost of 1M input tokens          cost.per_1m_input_tokens
cost of 1M output tokens         cost.per_1m_output_tokens
cost of 1M tokens                cost.per_1m_tokens
cost of a request                cost.per_request
cost of a job                    cost.per_job
J/token                          energy.j_per_token
J/output token                   energy.j_per_output_token
J/job                            energy.j_per_job
GPU power, W                     server_metrics.all.power_w.mean
good requests                    goodput.requests
goodput                          goodput.share
good requests/s                  goodput.requests_per_s
prefix hits                      prefix_cache.hit_ratio
prefix hits, as reported         prefix_cache.reported_hit_ratio
ideal prefix hits, as placed     prefix_cache.expected_hit_ratio
ideal, in one cache              routing.one_cache_hit_ratio
recorded prefix hits             prefix_cache.recorded.recorded_hit_ratio
jobs                             jobs.jobs
jobs finished                    jobs.finished
jobs finished from snapshots     jobs.finished_parts
jobs with failures               jobs.with_failures
jobs cut off                     jobs.cut_off
jobs recycled                    jobs.recycled
jobs/h                           jobs.jobs_per_h
idle cuts of all jobs            idle_cuts.system
idle seconds cut of all jobs     idle_cuts.system_s
idle cuts of single jobs         idle_cuts.trees
idle seconds cut of single jobs  idle_cuts.trees_s
waiting in servers, max          server_metrics.all.waiting.max
KV cache use, max                server_metrics.all.kv_usage.max
preemptions                      server_metrics.all.preemptions
CPU taken by the host            client.stolen_share
`

// factsOf are the numbers that one looks for first.
func factsOf(parts []*part) (facts [][2]string) {
	at := map[string]string{}
	for _, p := range parts {
		for _, f := range p.fields {
			at[p.keyOf(f)] = f[1]
		}
	}
	rates := "under_load."
	v := at["under_load.until_s"]
	if v == "" || v == "0" { // of an earlier version
		rates = "throughput."
	}
	for line := range strings.Lines(firstFacts) {
		name, key, _ := strings.Cut(line, "  ")
		key = strings.Replace(strings.TrimSpace(key), "rates.", rates, 1)
		text := at[key]
		if text != "" {
			facts = append(facts, [2]string{name, text})
		}
	}
	return facts
}

// targetColumns are those of targets that a page has room for.
const targetColumns = " url name requests failed share ttft_ms.p50 ttft_ms.p99 tpot_ms.p50 e2e_ms.p99 " +
	"second_gap_ms.p50 kv_transfer_ms reported_hit_ratio counted_hit_ratio goodput.share goodput_share "

// failureColumns are those of failures and outages that a page of 1,280 pixels has room for.
const failureColumns = " outcome phase status count example target address from_s to_s requests failed error cut_off " +
	"others_ttft_p99_before_ms others_ttft_p99_during_ms "

// ownerColumns are those of owners that a page of 1,280 pixels has room for.
const ownerColumns = " name requests failed ttft_ms.p50 ttft_ms.p99 tpot_ms.p50 reported_hit_ratio " +
	"expected_hit_ratio goodput_share longest_wait_ms first_ttft_ms "

// tablesOf are the parts with these paths, if they are there; of the columns of rows those that are named between
// spaces, "" = all.
func tablesOf(parts []*part, columns string, paths ...string) (out []chart.Table) {
	for _, path := range paths {
		for _, p := range parts {
			if p.path == path {
				out = append(out, p.table(columns))
			}
		}
	}
	return out
}

// table has the rows of a part, or else a row for each of its fields.
func (p *part) table(columns string) chart.Table {
	t := chart.Table{
		Title: p.path,
		Head:  []string{"", ""},
	}
	if len(p.rows) == 0 {
		for _, f := range p.fields {
			t.Rows = append(t.Rows, chart.Texts(f[:]...))
		}
		return t
	}
	chosen := func(row []string) (cells []string) {
		for c, cell := range row {
			if columns == "" || strings.Contains(columns, " "+p.head[c]+" ") {
				cells = append(cells, cell)
			}
		}
		return cells
	}
	t.Head = chosen(p.head)
	for _, row := range p.rows {
		t.Rows = append(t.Rows, chart.Texts(chosen(row)...))
	}
	return t
}

// numbersSection is all that summary.json has.
func numbersSection(parts []*part) chart.Section {
	out := chart.Section{Title: "All of summary.json", Folded: true}
	for _, p := range parts {
		for _, f := range p.fields {
			out.Facts = append(out.Facts, [2]string{p.keyOf(f), f[1]})
		}
		if len(p.texts) > 0 {
			out.Facts = append(out.Facts, [2]string{p.path, strings.Join(p.texts, "; ")})
		}
		if len(p.rows) > 0 {
			out.Tables = append(out.Tables, turned(p.table("")))
		}
	}
	return out
}

// nameTables puts words in place of keys of summary.json. A table that is called as its section has no title.
func nameTables(s *chart.Section) {
	short := strings.NewReplacer("reported_hit_ratio", "hits", "goodput_share", "goodput") // columns are many
	for i := range s.Tables {
		t := &s.Tables[i]
		if s.Folded { // it has the keys
			continue
		}
		path := strings.Split(strings.TrimSuffix(t.Title, ".parts"), ".")
		title := []rune(words(path[len(path)-1]))
		if len(title) > 0 {
			t.Title = string(unicode.ToUpper(title[0])) + string(title[1:])
		}
		if t.Title == s.Title {
			t.Title = ""
		}
		markFewValues(t)
		for c, name := range t.Head {
			t.Head[c] = words(short.Replace(name))
			ours := c == 0 && name == "" || slices.Contains([]string{"outcome", "phase", "distribution"}, name)
			for _, row := range t.Rows { // what others have named stays as it is
				if ours {
					row[c].Text = words(row[c].Text)
				}
			}
		}
	}
}

// markFewValues marks the percentiles of rows that have too few values for them.
func markFewValues(t *chart.Table) {
	count := func(row []chart.Cell, name string) (n int64) {
		c := slices.Index(t.Head, name)
		if c >= 0 {
			n, _ = strconv.ParseInt(strings.ReplaceAll(row[c].Text, ",", ""), 10, 64)
		}
		return n
	}
	for _, row := range t.Rows {
		n := count(row, "requests") + count(row, "count") - count(row, "failed")
		for c, name := range t.Head {
			p := stats.PerMille(name[strings.LastIndexByte(name, '.')+1:])
			if n > 0 && p > 0 && row[c].Text != "" && !stats.EnoughSamples(n, float64(p)/1000) {
				row[c].Text = markFew + row[c].Text
				row[c].Mark = chart.Warn
			}
		}
	}
}

// words are a key of summary.json as people read it: "TTFT p50, ms" for ttft_ms.p50.
func words(key string) string {
	unit := ""
	for _, suffix := range []string{"_ms", "_us", "_s"} {
		name, number, _ := strings.Cut(key, ".")
		if strings.HasSuffix(name, suffix) && !strings.HasSuffix(name, "_per_s") {
			key = strings.TrimSpace(strings.TrimSuffix(name, suffix) + " " + number)
			unit = ", " + strings.Replace(suffix[1:], "us", "µs", 1)
		}
	}
	names := strings.NewReplacer("_per_s", "/s", "_hit_ratio", " hits", "_", " ", ".", " ")
	out := strings.Fields(names.Replace(key))
	for i, word := range out {
		switch word {
		case "ttft", "ttfo", "tpot", "ntpot", "itl", "e2e", "kv", "url", "http", "cpu", "gpu":
			out[i] = strings.ToUpper(word)
		case "p999":
			out[i] = "p99.9"
		}
	}
	return strings.Join(out, " ") + unit
}

// turned makes columns of the rows of a table, if it has few rows and many columns.
func turned(t chart.Table) chart.Table {
	if len(t.Head) < 10 || len(t.Rows) > 8 {
		return t
	}
	out := chart.Table{Title: t.Title, Head: []string{t.Head[0]}}
	for _, row := range t.Rows {
		out.Head = append(out.Head, row[0].Text)
	}
	for c, name := range t.Head[1:] {
		cells := chart.Texts(name)
		for _, row := range t.Rows {
			cells = append(cells, row[c+1])
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// keyOf is a field's place in summary.json.
func (p *part) keyOf(field [2]string) string {
	return strings.TrimPrefix(p.path+"."+field[0], ".")
}

// latencyTable is the distributions of the summary, with marks at what says little.
func latencyTable(s *metrics.Summary) chart.Table {
	t := chart.Table{
		Head: []string{"", "values", "p50", "p75", "p90", "p95", "p99", "p999", "max", "mean"},
	}
	shown := shownLatencies(s, metrics.OnPage)
	if len(shown) > 0 && shown[0].key == "drift" { // the client's own stands last
		shown = append(shown[1:], shown[0])
	}
	for _, l := range shown {
		row := chart.Texts(l.name, format.Count(l.q.Count))
		for _, n := range l.numbers(s) {
			cell := chart.Cell{
				Text: n.mark + format.Duration(n.ns, 3),
				Hint: n.hint,
			}
			if n.isMax {
				cell.Text = "–"
			}
			if n.mark != "" {
				cell.Mark = chart.Warn
				t.Note = "~ too few values, or they vary over the run; – so few that it would be the largest; " +
					"! moved by the client's lateness: point at the number."
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// actionSection has what was done during the run, and what it cost.
func actionSection(s *metrics.Summary) chart.Section {
	if len(s.Actions) == 0 {
		return chart.Section{}
	}
	t := chart.Table{Head: []string{"action", "at", "finding", "cost"}}
	for i := range s.Actions {
		a := &s.Actions[i]
		at := format.Seconds(a.BeganS())
		t.Rows = append(t.Rows, chart.Texts(a.Run, at, a.Finding(), strings.Join(a.CostWords(), ", ")))
	}
	return chart.Section{Title: "Actions", Tables: []chart.Table{t}}
}

// flagSection has what made the run, so that it can be repeated.
func flagSection(s *metrics.Summary) chart.Section {
	if len(s.Run.Options) == 0 {
		return chart.Section{}
	}
	t := chart.Table{Head: []string{"flag", "value"}}
	for _, name := range slices.Sorted(maps.Keys(s.Run.Options)) {
		value := s.Run.Options[name]
		if text, ok := value.(json.RawMessage); ok { // of a run in this process
			value = string(text)
		}
		t.Rows = append(t.Rows, chart.Texts("--"+name, fmt.Sprint(value)))
	}
	return chart.Section{
		Title:  "Flags",
		Folded: true,
		Tables: []chart.Table{t},
	}
}

// jobs adds what became of jobs, where their time went, and the latencies by depth.
func (p *screen) jobs() {
	j := agentsOf(p.Summary)
	if j == nil {
		return
	}
	p.values(first, 2, "jobs", "{jobs.finished count} of {jobs.jobs count} finished | "+
		"{jobs.finished_parts some} from snapshots | {jobs.with_failures some} with failures | "+
		"{jobs.cut_off some} cut off | {jobs.recycled some} recycled | {jobs.jobs_per_h rate} jobs/h | "+
		"p50 {jobs.completion_ratio.p50 three} × as long as recorded, max {jobs.completion_ratio.max three} × | "+
		"{turns.overtaking some} overtaking")
	if j.CompletionS != nil && j.CompletionS.Mean > 0 {
		waits := j.WaitsS.Mean / j.CompletionS.Mean
		behind := ""
		later := cmp.Or(p.Turns, &metrics.Turns{}).LaterMS
		if later != nil && later.Max > 0 {
			behind = "delayed up to " + format.Milliseconds(later.Max)
		}
		p.field(second, 1, "job time",
			format.Percent(1-waits)+" in requests",
			format.Percent(waits)+" between them",
			behind)
	}
	if c := p.IdleCuts; c != nil {
		p.field(third, 1, "idle cuts",
			format.Count(c.System)+" of all jobs, "+format.Seconds(c.SystemS),
			format.Count(c.Trees)+" of single jobs, "+format.Seconds(c.TreesS))
	}
	names := map[string]string{"0": "main agents", "1": "sub-agents"}
	for _, d := range j.Depths[:min(len(j.Depths), 2)] { // --full has the deeper ones
		p.field(second, 1, cmp.Or(names[d.Name], "depth "+d.Name),
			format.Requests(d.OK+d.Failed),
			format.Some(d.Failed, "failed"),
			ttftOf(d),
			known(format.Percent, d.ReportedHitRatio, "hits"))
	}
}

// jobSection has the results by job of the page.
func jobSection(s *metrics.Summary, parts []*part) chart.Section {
	const columns = " name requests agents state completion_s recorded_s critical_waits_s critical_requests failed " +
		"ttft_ms.p50 ttft_ms.p99 e2e_ms.p50 e2e_ms.p99 reported_hit_ratio expected_hit_ratio distribution p50 p75 " +
		"p90 p95 p99 p999 max mean count "
	if s.Jobs == nil {
		return chart.Section{}
	}
	const mostRows = 20 // "All of summary.json" has the others
	tables := tablesOf(parts, columns, "jobs", "jobs.depths", "jobs.types", "jobs.longest", "jobs.sessions")
	for i := range tables {
		tables[i].Rows = tables[i].Rows[:min(len(tables[i].Rows), mostRows)]
	}
	return chart.Section{
		Title:  "Jobs",
		Tables: tables,
		Note: "A job is a task with all requests of its agents, or a conversation if the trace has no jobs. Its " +
			"critical path leads from its last answer back to what each request waited for longest. " +
			"Distributions are over whole jobs that finished, not over those that lanes began at a snapshot. The " +
			"longest jobs are listed, and the conversations whose answers took longest in all.",
	}
}
