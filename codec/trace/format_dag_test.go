package trace

import (
	"fmt"
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
