package samples

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestJobs: the samples with a job an object are what their recipes say, and have jobs, sub-agents and joins.
func TestJobs(t *testing.T) {
	for path, c := range map[string]struct {
		made       []byte
		format     string
		rows, jobs int
		spawns     int
		joins      int
	}{
		"dynamo.jsonl": {dynamo(), "dynamo", 91, 8, 4, 4},
		"satf.json":    {satf(), "satf", 86, 8, 0, 0},
		"weka.jsonl":   {weka(), "weka", 107, 10, 9, 8},
	} {
		checkFile(t, path, c.made)
		tr := must.Have(trace.Open(path, trace.Options{Strict: true}))(t)
		relations := map[trace.Relation]int{}
		for i := range tr.Len() {
			for _, d := range tr.Dependencies(i) {
				relations[d.Relation]++
			}
		}
		if tr.Format != c.format || tr.Len() != c.rows || len(tr.Jobs) != c.jobs || relations[trace.Spawn] != c.spawns || relations[trace.Join] != c.joins || len(tr.Lint.Notes()) != 0 {
			t.Errorf("%s: %s, %d rows of %d jobs, %d spawns, %d joins, %+v, notes %q", path, tr.Format, tr.Len(), len(tr.Jobs), relations[trace.Spawn], relations[trace.Join], tr.SubAgents, tr.Lint.Notes())
		}
		if span := float64(tr.SpanNS()) / 1e9; span < 5 || span > 8 || tr.Untimed {
			t.Errorf("%s spans %.2f s, want 5 to 8", path, span)
		}
	}
}

// coder is an agent that asks one request after the other, each with all before it. Times are ms.
type coder struct {
	dice
	at     int
	tokens int   // of the prompt
	ids    []int // of its whole blocks
	next   *int  // the next new id of the trace
	asked  int   // requests
	cached int   // tokens of the prompt that were there before
}

// grow adds tokens to the prompt.
func (a *coder) grow(tokens int) {
	for a.tokens += tokens; len(a.ids) < a.tokens/agentBlock; *a.next++ {
		a.ids = append(a.ids, *a.next)
	}
}

// weka is weka.jsonl: 10 traces of coding agents, which all begin at 0 and end within 7 s. Some start one or two
// sub-agents and wait for them; one of those is left alone.
func weka() []byte {
	chance := newDice(9, 0)
	var file bytes.Buffer
	for n := range 10 {
		next := 1
		main := &coder{dice: chance, next: &next}
		main.grow(main.between(1000, 4000))
		fmt.Fprintf(&file, `{"id":"trace_%04d","models":["sample"],"block_size":64,"hash_id_scope":"local","requests":[`, n+1)
		comma := ""
		put := func(text string) {
			file.WriteString(comma + text)
			comma = ","
		}
		for range main.between(1, 3) {
			put(main.wekaRow())
		}
		end := main.at
		for s := range n % 3 {
			start := main.between(20, 60)
			sub := &coder{dice: chance, next: &next}
			sub.grow(sub.between(500, 1500))
			inside := sub.wekaRow()
			for sub.at < 1800 {
				inside += "," + sub.wekaRow()
			}
			took := sub.at + 10
			if n%8 == 7 && s == 0 {
				put(fmt.Sprintf(`{"t":%.3f,"type":"subagent","agent_id":"agent_%03d","duration_ms":null,"status":"async_launched","requests":[%s]}`, float64(main.at+start)/1000, s+1, inside))
				continue
			}
			put(fmt.Sprintf(`{"t":%.3f,"type":"subagent","agent_id":"agent_%03d","duration_ms":%d,"status":"completed","requests":[%s]}`, float64(main.at+start+took)/1000, s+1, took, inside))
			end = max(end, main.at+start+took)
		}
		main.at = end + main.between(50, 300)
		for main.at < 5600 {
			put(main.wekaRow())
		}
		file.WriteString("]}\n")
	}
	return file.Bytes()
}

// wekaRow is the agent's next request, and the time until the one after it.
func (a *coder) wekaRow() string {
	took, out := a.between(150, 600), a.between(5, 60)
	kind := `"type":"n"`
	if a.IntN(4) == 0 {
		kind = fmt.Sprintf(`"type":"s","ttft":%.3f`, float64(took)/4000)
	}
	var ids bytes.Buffer
	for i, id := range a.ids {
		fmt.Fprintf(&ids, "%s%d", ",,"[:min(i, 1)], id)
	}
	row := fmt.Sprintf(`{"t":%.3f,%s,"model":"sample","in":%d,"out":%d,"hash_ids":[%s],"api_time":%.3f}`, float64(a.at)/1000, kind, a.tokens, out, &ids, float64(took)/1000)
	a.at += took + a.between(50, 400)
	a.grow(out + a.between(20, 400))
	return row
}
