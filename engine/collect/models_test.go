package collect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestModelsOfTargetsThatJoin: two targets that join have no name before the end of the run. One that changes its model
// is found by its own name.
func TestModelsOfTargetsThatJoin(t *testing.T) {
	for _, change := range []bool{false, true} {
		c := NewCollector([]string{"http://a", "", "", ""})
		for i := range 30 {
			r := answered()
			r.AnswerModel = "m"
			if change && i > 20 && i%3 == 2 {
				r.AnswerModel = "new"
			}
			c.Add(r, i%3)
		}
		c.Rename([]string{"http://a", "http://b", "http://c"})
		var want []metrics.AnswerModel
		if change {
			want = []metrics.AnswerModel{
				{Target: "http://a", Named: "m", Requests: 10},
				{Target: "http://b", Named: "m", Requests: 10},
				{Target: "http://c", Named: "m", Requests: 7},
				{Target: "http://c", Named: "new", Requests: 3},
			}
		}
		got := planned(c, 0).AnswerModels
		expect.Equal(t, slices.Equal(got, want), true, "%+v", got)
	}
}

// TestManyAdapters: that an answer names another model than before is found of each of many adapters, and a server that
// names each answer otherwise takes no more room than a few names.
func TestManyAdapters(t *testing.T) {
	c := NewCollector([]string{"http://a", "http://b", "http://c", "http://d"})
	for i := range 2000 {
		r := answered()
		r.Model = fmt.Sprint("lora-", i/4%100)
		switch r.AnswerModel = r.Model; {
		case i == 1999:
			r.AnswerModel = "another"
		case i%400 == 0:
			r.AnswerModel = fmt.Sprint("build-", i)
		}
		c.Add(r, i%4)
	}
	for i := range 10 {
		r := answered()
		r.Model, r.AnswerModel = "lora-0", fmt.Sprint("build-", i)
		c.Add(r, 0)
	}
	got := planned(c, 0).AnswerModels
	slices.SortStableFunc(got, func(a, b metrics.AnswerModel) int { return strings.Compare(a.Asked, b.Asked) })
	want := []metrics.AnswerModel{
		{Target: "http://a", Asked: "lora-0", Named: furtherNames, Requests: 10},
		{Target: "http://a", Asked: "lora-0", Named: "build-0", Requests: 2},
		{Target: "http://a", Asked: "lora-0", Named: "build-1200", Requests: 1},
		{Target: "http://a", Asked: "lora-0", Named: "build-400", Requests: 1},
		{Target: "http://a", Asked: "lora-0", Named: "build-800", Requests: 1},
		{Target: "http://b", Asked: "lora-0", Named: "lora-0", Requests: 5},
		{Target: "http://c", Asked: "lora-0", Named: "lora-0", Requests: 5},
		{Target: "http://d", Asked: "lora-0", Named: "lora-0", Requests: 5},
		{Target: "http://a", Asked: "lora-99", Named: "lora-99", Requests: 5},
		{Target: "http://b", Asked: "lora-99", Named: "lora-99", Requests: 5},
		{Target: "http://c", Asked: "lora-99", Named: "lora-99", Requests: 5},
		{Target: "http://d", Asked: "lora-99", Named: "lora-99", Requests: 4},
		{Target: "http://d", Asked: "lora-99", Named: "another", Requests: 1},
	}
	expect.Equal(t, slices.Equal(got, want), true, "%+v", got)
}

// TestModelsOfBodies: bodies that ask for several models get those. One that nobody asked for is another, and so is one
// that only rows of their own ask for.
func TestModelsOfBodies(t *testing.T) {
	for _, w := range []struct {
		asked, own, named []string // by request, in turn
		mixed             bool
	}{
		{[]string{"a", "b"}, []string{"", ""}, []string{"a", "b"}, false},
		{[]string{"a", "b"}, []string{"", ""}, []string{"a", "c"}, true},
		{[]string{"a", "b"}, []string{"", ""}, []string{"c", "c"}, false},
		{[]string{"a", "b"}, []string{"", "b"}, []string{"a", "b"}, false},
		{[]string{"a", "b"}, []string{"", "b", ""}, []string{"a", "b", "b"}, true},
		{[]string{"a"}, []string{"", ""}, []string{"a", "b"}, true},
		{nil, []string{"", ""}, []string{"a", "b"}, true},
	} {
		for _, targets := range [][]string{{"http://a"}, {"http://a", "http://b"}} {
			c := NewCollector(targets)
			for i := range 30 {
				r := answered()
				r.Model = w.own[i%len(w.own)]
				r.AnswerModel = w.named[i%len(w.named)]
				c.Add(r, i%len(targets))
			}
			s := c.Summary(metrics.Summary{Run: metrics.Run{AskedModels: w.asked}}, Probed{})
			expect.Equal(t, len(s.AnswerModels) > 0, w.mixed, "%+v at %d targets", w, len(targets))
		}
	}
}

// TestOtherModel: an answer of a model that nobody asked for is noted, and none where it is unknown who was asked for.
func TestOtherModel(t *testing.T) {
	for _, c := range []struct {
		asked []string
		named [2]string // by target
		want  string
	}{
		{nil, [2]string{"other", "other"}, ""},
		{[]string{"small", "large"}, [2]string{"small", "large"}, ""},
		{[]string{"large"}, [2]string{"large", ""}, ""},
		{[]string{"large"}, [2]string{"small", "small"}, `20 answers named a model that no request asked for, such as "small"`},
		{[]string{"large"}, [2]string{"large", "small"}, `10 answers named a model that no request asked for, such as "small"`},
	} {
		r := NewCollector([]string{"http://a", "http://b"})
		for i := range 20 {
			answer := answered()
			answer.AnswerModel = c.named[i%2]
			r.Add(answer, i%2)
		}
		s := r.Summary(metrics.Summary{Run: metrics.Run{AskedModels: c.asked}}, Probed{})
		found := ""
		for i, code := range s.NoteCodes {
			if code == "other_model" {
				found, _, _ = strings.Cut(s.Notes[i], ":")
			}
		}
		expect.Equal(t, found, c.want, "%+v", c)
	}
}
