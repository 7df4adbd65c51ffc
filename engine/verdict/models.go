package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// mixed says that answers to one name name several models: targets have different ones, somebody changed it meanwhile,
// or sent requests elsewhere.
func mixed(s *metrics.Summary) *metrics.Reason {
	if len(s.AnswerModels) == 0 {
		return nil
	}
	return &metrics.Reason{
		Code:  metrics.Models,
		Grade: metrics.Limited,
		What:  "all numbers mix several models, by the names in the answers",
		Why:   answerNames(s.AnswerModels),
		Do:    "find out who answers, or see the numbers of each target; measure one model at a time",
	}
}

// answerNames says what answers name, how often and where, the most frequent names first.
func answerNames(all []metrics.AnswerModel) string {
	requests := map[string]int64{}
	targets := map[string]map[string]bool{}
	for _, m := range all {
		if targets[m.Named] == nil {
			targets[m.Named] = map[string]bool{}
		}
		targets[m.Named][m.Target] = true
		requests[m.Named] += m.Requests
	}
	names := slices.SortedFunc(maps.Keys(requests), func(a, b string) int {
		return cmp.Or(cmp.Compare(requests[b], requests[a]), cmp.Compare(a, b))
	})
	const most = 4
	var words []string
	for _, name := range names[:min(most, len(names))] {
		where := format.Many(len(targets[name]), "target")
		if len(targets[name]) == 1 {
			where = slices.Collect(maps.Keys(targets[name]))[0]
		}
		words = append(words, fmt.Sprintf("%q in %s of %s", name, format.Requests(requests[name]), where))
	}
	if more := len(names) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more: see answer_models", more))
	}
	return strings.Join(words, "; ")
}
