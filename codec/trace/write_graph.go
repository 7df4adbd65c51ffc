package trace

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strconv"
)

// agenticRows is what the rows of a trace are called while it is written.
type agenticRows struct {
	graph *Graph // nil = no row waits for another
	job   []int32
	plays []string // names of jobs
}

// prepareAgentic makes the trace ready to be written, and the head. Its digest is of the rows.
func prepareAgentic(t *Trace) (ready *Trace, head []byte) {
	out := *t
	out.agentic = &agenticRows{graph: t.Graph(t.Len())}
	job, n := t.JobNumbers()
	out.agentic.job, out.agentic.plays = job, make([]string, n)
	taken := map[string]int{} // names, and how many asked for each
	for i, j := range job {
		if out.agentic.plays[j] != "" {
			continue
		}
		name := cmp.Or(t.JobName(i), "row-"+strconv.Itoa(int(t.Row[i])))
		free := name
		for taken[free] > 0 {
			taken[name]++
			free = fmt.Sprintf("%s~%d", name, taken[name])
		}
		out.agentic.plays[j] = free
		taken[free]++
	}
	scope := "local"
	if t.sharedBetween(job, n) {
		scope = "global"
	}
	digest := sha256.New()
	var line []byte
	for i := range out.Len() {
		line = append(appendAgentic(line[:0], &out, i), '\n')
		oneLine(line[:len(line)-1])
		digest.Write(line)
	}
	head = fmt.Appendf(nil, `{"schema":%q,"version":%d,"block_size":%d,"hash_id_scope":%q,"source":{"format":%q,"digest":"sha256:%x"}}`+"\n",
		agenticSchema, agenticVersion, t.BlockTokens, scope, t.Format, digest.Sum(nil))
	return &out, head
}

// sharedBetween reports whether some of n jobs have blocks in common.
func (t *Trace) sharedBetween(job []int32, n int) bool {
	owner := map[uint64]int32{}
	before := make([][]uint64, n) // ids of the row before in a job, which are known
	for i, j := range job {
		ids := t.Blocks(i)
		from := commonPrefix(ids, before[j])
		before[j] = ids
		for _, id := range ids[from:] {
			if of, known := owner[id]; known && of != j {
				return true
			}
			owner[id] = j
		}
	}
	return false
}

// bound is when request i is sent at the earliest, beside what it waits for; 0 = at any time. A request that is free of
// waits is sent when it was recorded.
func (t *Trace) bound(i int, free bool) int64 {
	switch {
	case t.NotBeforeNS != nil && t.NotBeforeNS[i] > 0:
		return t.NotBeforeNS[i]
	case free:
		return t.ArrivalNS[i]
	}
	return 0
}
