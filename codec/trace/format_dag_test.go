package trace

import (
	"fmt"
	"strings"
	"testing"
)

// dagTurnOf is a turn of which the one message says its name.
func dagTurnOf(says, more string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":"%s"}],"max_tokens":9%s}`, says, more)
}

// dagFile has a child before its parent, a fork beside its parent and forks at the end, a late join of two, a
// conversation that is spawned twice, and another job.
var dagFile = `{"session_id":"help","turns":[` + dagTurnOf("h0", "") + "," + dagTurnOf("h1", `,"delay":20`) + `]}
{"session_id":"root","pre_session_spawns":["early"],"turns":[` +
	dagTurnOf("r0", `,"spawns":[{"children":["help","tool"],"join_at":2}],"forks":[{"child":"side","background":true}],"extra":{"temperature":0}`) + "," +
	dagTurnOf("r1", `,"delay":1.5`) + "," + dagTurnOf("r2", `,"delay":7,"spawns":["tool"],"tools":[{"type":"function"}]`) + "," + dagTurnOf("r3", `,"forks":["a","b"]`) + `]}
{"session_id":"side","turns":[` + dagTurnOf("s0", "") + `]}
{"session_id":"tool","turns":[` + dagTurnOf("t0", `,"forks":["on"]`) + `]}
{"session_id":"on","turns":[` + dagTurnOf("o0", "") + `]}
{"session_id":"early","context_mode":"message_array_with_responses","turns":[` + dagTurnOf("e0", "") + "," + dagTurnOf("e1", "") + `]}
{"session_id":"a","turns":[` + dagTurnOf("a0", "") + `]}
{"session_id":"b","turns":[` + dagTurnOf("b0", "") + `]}
{"session_id":"other","turns":[` + dagTurnOf("x0", `,"delay":9`) + `]}
`

func TestDAG(t *testing.T) {
	file := strings.Replace(dagFile, `"forks":["on"]`, `"x":0`, 1) // TestDAGForkOfASpawn has that
	file = strings.Replace(file, `{"session_id":"on","turns":[`+dagTurnOf("o0", "")+"]}\n", "", 1)
	tr := read(t, file, Options{})
	if tr.Format != "dag_jsonl" || !tr.Untimed || tr.Len() != 14 || tr.FileRows != 14 {
		t.Fatalf("%d rows of %s, untimed %v", tr.Len(), tr.Format, tr.Untimed)
	}
	var said, agents []string
	for i := range tr.Len() {
		said = append(said, strings.NewReplacer(`{"role":"user","content":"`, "", `"}`, "").Replace(string(tr.Verbatim(i).Content)))
		agents = append(agents, fmt.Sprint(tr.SessionName(i), tr.Depth[i]))
	}
	want(t, "said", said, strings.Split("e0 e1 r0 r0,s0 h0 h0,h1 t0 r0,r1 r0,r1,r2 t0 r0,r1,r2,r3 r0,r1,r2,r3,a0 r0,r1,r2,r3,b0 x0", " "))
	want(t, "agents", agents, strings.Split("root/early1 root/early1 root0 root1 root/help1 root/help1 root/tool1 root0 root0 root/tool.21 root0 root1 root1 other0", " "))
	want(t, "waits", waits(tr), strings.Split("-; 0+0s; -; 2+0s; 2+0s spawn; 4+20ms; 2+0s spawn; 2+1.5ms; 7+7ms & 5+7ms join & 6+7ms join; 8+0s spawn; 8+0s & 9+0s join; 10+0s; 10+0s; -", "; "))
	want(t, "Jobs", tr.Jobs, []string{"root", "other"})
	want(t, "OutputTokens", tr.OutputTokens[:1], []int32{9})
	want(t, "extra, tools", []string{string(tr.Verbatim(2).Extra), string(tr.Verbatim(8).Tools), string(tr.Verbatim(7).Extra)}, []string{`{"temperature":0}`, `[{"type":"function"}]`, ""})
	if c := tr.Carries(tr.TurnsBefore(tr.Len())); c[11].Of != 10 || c[12].Of != 10 || c[3].Of != 2 || c[7].Of != 2 {
		t.Errorf("%+v: forks must go on from what they were forked from", c)
	}
}

// TestDAGForkOfASpawn: what is spawned twice can itself be forked, once.
func TestDAGForkOfASpawn(t *testing.T) {
	tr := read(t, dagFile, Options{})
	want(t, "waits", waits(tr)[8:11], []string{"2+1.5ms", "8+7ms & 5+7ms join & 7+7ms join", "9+0s spawn"})
}

func TestMultiTurnIsNoDAG(t *testing.T) {
	if tr := read(t, multiFile, Options{}); tr.Format != "multi_turn" {
		t.Errorf("detected %s", tr.Format)
	}
}
