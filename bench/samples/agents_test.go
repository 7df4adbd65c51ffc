package samples

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestAgents asserts what the samples of agents are for: sub-agents, joins, requests that wait for nothing recorded as
// their end, and hits within a job.
func TestAgents(t *testing.T) {
	for path, made := range map[string][]byte{"agentic_mooncake.jsonl": agenticMooncake()} {
		checkFile(t, path, made)
		tr := must.Have(trace.Open(path, trace.Options{Strict: true}))(t)
		_, jobs := tr.JobNumbers()
		relations, triggers, deepest, joins := map[trace.Relation]int{}, map[trace.Trigger]int{}, int32(0), 0
		g := tr.Graph(tr.Len())
		for i := range tr.Len() {
			deepest, joins = max(deepest, tr.Depth[i]), max(joins, len(g.Of(i)))
			for _, w := range g.Of(i) {
				relations[w.Relation]++
				triggers[w.Trigger]++
			}
		}
		t.Logf("%s: %d requests of %d jobs in %d ms, %v, %v, depth %d, up to %d waits", path, tr.Len(), jobs, tr.SpanNS()/1e6, relations, triggers, deepest, joins)
		if tr.Len() < 30 || tr.Len() > 60 || jobs != 4 || tr.SpanNS() > 7e9 || deepest != 2 || joins < 3 || relations[trace.Spawn] < 10 || triggers[trace.OnDispatch] < 10 || len(tr.Lint.Notes()) > 0 {
			t.Errorf("%s: %q", path, tr.Lint.Notes())
		}
	}
}

// agentBlock is the tokens of a block in traces of agents.
const agentBlock = 64

// crew makes up what the agents of one job send.
type crew struct {
	dice
	play   string
	blocks int // ids given so far, the job's own
	sent   []agentRequest
}

// agentRequest is a line, and when the request was sent and how long it took, in ms.
type agentRequest struct {
	line     string
	at, took int
}

// agent is one conversation of a crew.
type agent struct {
	session    string
	depth      int
	ids        []int
	tokens     int // of its next prompt but for what is new
	turns      int
	last       int // its last request
	background bool
}

// work lets an agent have its turns. The first waits for the request by, if it is not -1, and comes at ms. Sub-agents
// begin behind turns, and the next turn waits for those that do not work in the background.
func (c *crew) work(a *agent, by, at int) {
	relation, trigger, gap := "spawn", "dispatch", 0
	if by >= 0 {
		gap = at - c.sent[by].at
	}
	waits := []int{by}
	var joined []int
	for turn := range a.turns {
		if turn > 0 {
			relation, trigger, waits = "sequence", "completion", append([]int{a.last}, joined...)
			gap = c.between(20, 250)
			at = 0
			for _, on := range waits {
				at = max(at, c.sent[on].at+c.sent[on].took+gap)
			}
		}
		c.send(a, at, gap, waits, relation, trigger)
		joined = nil
		for n := range c.between(0, 2-a.depth) {
			if turn == a.turns-1 {
				break
			}
			sub := &agent{session: fmt.Sprintf("%s.%d%c", a.session, turn, 'a'+n), depth: a.depth + 1, ids: slices.Clone(a.ids[:6]), tokens: 6 * agentBlock,
				turns: c.between(1, 2), background: c.IntN(5) == 0}
			c.work(sub, a.last, c.sent[a.last].at+c.between(5, 40))
			if !sub.background {
				joined = append(joined, sub.last)
			}
		}
	}
}

// send adds a request that waits for others, for each gap ms from the trigger on.
func (c *crew) send(a *agent, at, gap int, waits []int, relation, trigger string) {
	cached := len(a.ids) * agentBlock
	a.tokens += c.between(80, 600)
	for len(a.ids) < (a.tokens+agentBlock-1)/agentBlock {
		c.blocks++
		a.ids = append(a.ids, c.blocks)
	}
	output := c.between(10, 90)
	took := 15 + a.tokens/100 + 2*output
	var dependencies []string
	for i, on := range waits {
		if on < 0 {
			continue
		}
		if i > 0 {
			relation = "join"
		}
		dependencies = append(dependencies, fmt.Sprintf(`{"request_id":"%s-%d","trigger":%q,"delay_ms":%d,"relation":%q}`, c.play, on, trigger, gap, relation))
	}
	bound := 0
	if len(dependencies) == 0 {
		bound = at
	}
	a.last = len(c.sent)
	c.sent = append(c.sent, agentRequest{fmt.Sprintf(`{"request_id":"%s-%d","play_id":%q,"session_id":%q,"model":"sample","input_length":%d,"output_length":%d,"hash_ids":%s,"not_before_ms":%d,"recorded_api_time_ms":%d,"ttft_ms":%d,"cached_tokens":%d,"depth":%d,"dependencies":[%s]}`,
		c.play, a.last, c.play, a.session, a.tokens, output, strings.ReplaceAll(fmt.Sprint(a.ids), " ", ","), bound, took, took-2*output, cached, a.depth, strings.Join(dependencies, ",")), at, took})
	a.ids, a.tokens = a.ids[:a.tokens/agentBlock], a.tokens+output // what it said ends the block
}

// agenticMooncake is agentic_mooncake.jsonl: 4 jobs that begin within 3 s, whose agents have sub-agents of two depths.
// Some requests wait for several others, some sub-agents work in the background. The ids of each job are its own.
func agenticMooncake() []byte {
	var all []agentRequest
	for i, play := range []string{"refactor", "tests", "search", "review"} {
		c := &crew{play: play, dice: newDice(8, uint64(i))}
		c.work(&agent{session: "main", tokens: 6 * agentBlock, turns: 4 + i%2}, -1, 1000*i)
		all = append(all, c.sent...)
	}
	slices.SortStableFunc(all, func(a, b agentRequest) int { return cmp.Compare(a.at, b.at) })
	file := bytes.NewBufferString(`{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"sample","digest":"1"}}` + "\n")
	for _, r := range all {
		file.WriteString(r.line + "\n")
	}
	return file.Bytes()
}
