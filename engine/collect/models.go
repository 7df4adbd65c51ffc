package collect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

const (
	// mostNames bounds how many names are told apart for one model at one target: servers may name what they like.
	mostNames = 4
	// furtherNames stands for those beyond.
	furtherNames = "(further names)"
)

// answerModels counts ok requests by target and model.
type answerModels struct {
	requests map[answerModel]*int64
	names    map[answerModel]int // how many there are; the key has none
	latest   answerModel         // that of the last answer: the next one has the same, as a rule
	count    *int64              // its requests
}

// answerModel is a target by its index, the model of a row, and the name in the answer.
type answerModel struct {
	target       int
	asked, named string
}

func (m *answerModels) add(target int, r *record.Record) {
	if r.Outcome != record.OK || r.AnswerModel == "" {
		return
	}
	of := answerModel{target, r.Model, r.AnswerModel}
	if m.count == nil || of != m.latest {
		m.latest = of
		m.count = m.countOf(of)
	}
	*m.count++
}

// countOf is the number of requests of one, or of further names.
func (m *answerModels) countOf(of answerModel) *int64 {
	if m.requests[of] == nil {
		asked := answerModel{target: of.target, asked: of.asked}
		if m.names[asked] == mostNames {
			of.named = furtherNames
		} else {
			m.names[asked]++
		}
	}
	if m.requests[of] == nil {
		m.requests[of] = new(int64)
	}
	return m.requests[of]
}

// several are those that answered to one name as several, each with the most frequent first. urls are the targets'
// names after the run: those that joined had none before. Bodies may ask for several models: those of asked of which no
// row has one of its own.
func (m *answerModels) several(urls, asked []string) (all []metrics.AnswerModel) {
	names := map[string]map[string]bool{} // by what rows ask for
	for of := range m.requests {
		names[of.asked] = map[string]bool{}
	}
	for of := range m.requests {
		name := of.named
		if of.asked == "" && names[name] == nil && slices.Contains(asked, name) {
			name = ""
		}
		names[of.asked][name] = true
	}
	for of, requests := range m.requests {
		if len(names[of.asked]) > 1 {
			all = append(all, metrics.AnswerModel{
				Target:   urls[of.target],
				Asked:    of.asked,
				Named:    of.named,
				Requests: *requests,
			})
		}
	}
	slices.SortFunc(all, func(a, b metrics.AnswerModel) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), strings.Compare(a.Asked, b.Asked),
			cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Named, b.Named))
	})
	return all
}

// others counts the requests whose answers name a model that is none of those asked for; nil is unknown. named is the
// one that most of them name.
func (m *answerModels) others(asked []string) (requests int64, named string) {
	by := map[string]int64{}
	for of, n := range m.requests {
		if asked == nil || slices.Contains(asked, of.named) {
			continue
		}
		requests += *n
		by[of.named] += *n
		if named == "" || by[of.named] > by[named] || by[of.named] == by[named] && of.named < named {
			named = of.named
		}
	}
	return requests, named
}
