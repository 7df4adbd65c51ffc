package main

import "encoding/json"

// The JSON twin of the tables. Values are in base units: ns, bytes, per second.
type (
	jsonReport struct {
		Schema   int           `json:"schema"`
		Machine  machine       `json:"machine"`
		Runs     int           `json:"runs"`
		Bars     []jsonBar     `json:"bars"`
		Measures []jsonMeasure `json:"measures"`
		Skipped  []string      `json:"skipped"`
	}
	jsonBar struct {
		key
		By      *key      `json:"by"` // the measure it is divided by; null = none
		AtMost  *float64  `json:"at_most"`
		AtLeast *float64  `json:"at_least"`
		Unit    unit      `json:"unit"`
		Values  []float64 `json:"values"`
		Median  *float64  `json:"median"`
		Met     *bool     `json:"met"` // null = not measured
	}
	jsonMeasure struct {
		key
		Unit   unit       `json:"unit"`
		Values []*float64 `json:"values"` // by run; null = this run has none
		Median float64    `json:"median"`
		Min    float64    `json:"min"`
		Max    float64    `json:"max"`
	}
)

// json is the whole report as one object.
func (r *results) json(m machine, all []bar) ([]byte, error) {
	report := jsonReport{Schema: 1, Machine: m, Runs: r.runs, Bars: []jsonBar{}, Measures: []jsonMeasure{}, Skipped: append([]string{}, r.skipped...)}
	for _, j := range r.judge(all) {
		b := jsonBar{key: j.of, Unit: j.unit, Values: append([]float64{}, j.values...)}
		if j.by != (key{}) {
			b.By = &j.by
		}
		if b.AtMost = &j.limit; j.atLeast {
			b.AtMost, b.AtLeast = nil, &j.limit
		}
		if !j.missing {
			met := j.met()
			b.Median, b.Met = &j.spread.Median, &met
		}
		report.Bars = append(report.Bars, b)
	}
	for _, m := range r.order {
		s := spreadOf(m.values(r.runs))
		out := jsonMeasure{key: m.key, Unit: m.unit, Values: make([]*float64, r.runs), Median: s.Median, Min: s.Min, Max: s.Max}
		for run, v := range m.runs {
			out.Values[run] = &v
		}
		report.Measures = append(report.Measures, out)
	}
	return json.MarshalIndent(report, "", " ")
}
