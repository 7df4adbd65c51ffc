package collect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// mostAnswerModels bounds how many are told apart: servers may name what they like.
const mostAnswerModels = 256

// answerModels counts ok requests by target and model.
type answerModels map[metrics.AnswerModel]int64

func (m answerModels) add(url string, r *record.Record) {
	if r.Outcome != record.OK || r.AnswerModel == "" {
		return
	}
	of := metrics.AnswerModel{Target: url, Asked: r.Model, Named: r.AnswerModel}
	if m[of] > 0 || len(m) < mostAnswerModels {
		m[of]++
	}
}

// several are those of targets that answered to one name as several, each with the most frequent first.
func (m answerModels) several() (all []metrics.AnswerModel) {
	names := map[metrics.AnswerModel]int{}
	asked := func(of metrics.AnswerModel) metrics.AnswerModel {
		of.Named = ""
		return of
	}
	for of := range m {
		names[asked(of)]++
	}
	for of, requests := range m {
		if names[asked(of)] > 1 {
			of.Requests = requests
			all = append(all, of)
		}
	}
	slices.SortFunc(all, func(a, b metrics.AnswerModel) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), strings.Compare(a.Asked, b.Asked),
			cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Named, b.Named))
	})
	return all
}
