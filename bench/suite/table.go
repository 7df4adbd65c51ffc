package main

import (
	"fmt"
	"strings"
)

// markdown is the whole report: the bars, then everything measured, then what was left out.
func (r *results) markdown(m machine, all []bar) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", m)
	r.barTable(&b, all)
	r.fullTable(&b)
	if len(r.skipped) > 0 {
		b.WriteString("\nNot measured:\n\n")
		for _, s := range r.skipped {
			fmt.Fprintf(&b, "- %s\n", s)
		}
	}
	return b.String()
}

// barTable has a row for each bar of the scenarios that ran; what could not be measured in them is left open.
func (r *results) barTable(b *strings.Builder, all []bar) {
	judgements := r.judge(all)
	ran := map[string]bool{}
	for _, m := range r.order {
		ran[m.Scenario] = true
	}
	shown := 0
	for i := range judgements {
		j := &judgements[i]
		if !ran[j.of.Scenario] {
			continue
		}
		if shown++; shown == 1 {
			fmt.Fprintf(b, "\n| scenario | who | measure | bar | median of %s (min–max) | | in the same runs |\n|---|---|---|---|---|---|---|\n", plural(r.runs, "run"))
		}
		mark := "✗"
		if j.missing {
			mark = "–"
		} else if j.met() {
			mark = "✓"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", j.of.Scenario, j.of.Who, j.of.Name, j.text(j.unit), j.unit.spread(j.spread), mark, r.besideText(&j.bar))
	}
}

// fullTable has a row for each scenario and who was measured in it.
func (r *results) fullTable(b *strings.Builder) {
	type row struct{ scenario, who string }
	var order []row
	cells := map[row][]string{}
	for _, m := range r.order {
		at := row{m.Scenario, m.Who}
		if cells[at] == nil {
			order = append(order, at)
		}
		cells[at] = append(cells[at], m.Name+" "+m.unit.spread(spreadOf(m.values(r.runs))))
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\n| scenario | who | median (min–max) |\n|---|---|---|\n")
	before := ""
	for _, at := range order {
		name := at.scenario
		if name == before {
			name = ""
		}
		before = at.scenario
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, at.who, strings.Join(cells[at], " · "))
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
