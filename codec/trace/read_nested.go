package trace

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// maxOtherBasisPercent is the share of sub-agents that may show the other basis. More means that the files mix both.
const maxOtherBasisPercent = 5

// nestedAgents returns the first agents of jobs, nil where the files nest none. It decides what the times of their
// sub-agents count from, and gives all calls instants of the job.
func (l *loader) nestedAgents(calls []agents.Call) (roots []*agents.Node, err error) {
	shown := map[Basis][]int32{}
	for _, job := range l.nested {
		job.Shown(calls, shown)
	}
	if err := l.settleBasis(shown); err != nil {
		return nil, err
	}
	for _, job := range l.nested {
		job.Place(calls, 0, &l.SubAgents)
		roots = append(roots, job.Agent)
	}
	for i := range calls {
		l.ArrivalNS[i] = calls[i].BeganNS
	}
	return roots, nil
}

// settleBasis decides by which basis sub-agents show, and says why it may be wrong.
func (l *loader) settleBasis(shown map[Basis][]int32) error {
	absolute := len(shown[AbsoluteBasis])
	relative := len(shown[RelativeBasis])
	all := absolute + relative + len(shown[""])
	if all == 0 {
		return nil
	}
	told := l.o.Basis != "" && l.o.Basis != AutoBasis
	basis := RelativeBasis
	other := AbsoluteBasis
	if l.o.Basis == AbsoluteBasis || !told && absolute > relative {
		basis, other = other, basis
	}
	l.SubAgents.Basis = basis
	l.SubAgents.Shown = int64(len(shown[basis]))
	contrary := shown[other]
	if !told && len(contrary)*100 > (absolute+relative)*maxOtherBasisPercent {
		return l.collect(l.refuseMixed(basis, l.SubAgents.Shown, contrary))
	}
	switch {
	case len(contrary) > 0:
		l.Lint.Basis = fmt.Sprintf("times of %d of %d sub-agents look %s, first at %s, but are taken as %s",
			len(contrary), all, other, l.place(int(contrary[0])), basis)
	case absolute+relative == 0 && !told:
		l.Lint.Basis = fmt.Sprintf("it is unknown what the times of sub-agents count from, since all %d fit both: %s "+
			"is taken, the begin of the sub-agent; --weka-times absolute takes the begin of the job", all, basis)
	}
	return nil
}

// refuseMixed is the error for sub-agents that show another basis than most do.
func (l *loader) refuseMixed(basis Basis, most int64, contrary []int32) error {
	e := &LintError{More: max(0, len(contrary)-maxFaults)}
	for _, i := range contrary[:len(contrary)-e.More] {
		name := rows.Quote(l.sessionNames[l.Session[i]])
		e.Faults = append(e.Faults, l.faultAt(i,
			fmt.Sprintf("times of sub-agent %s are not %s, as those of %d others are", name, basis, most),
			"give --weka-times, or split the trace by what its times count from"))
	}
	return e
}
