package trace

import (
	"fmt"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
)

// labRow is a line of TraceLab's; events is type=second, in order.
func labRow(session string, round, input, prefix, output int, events string) string {
	var list []string
	for event := range strings.FieldsSeq(events) {
		kind, second, _ := strings.Cut(event, "=")
		list = append(list, fmt.Sprintf(`{"event_type":%q,"timestamp":"2026-06-01T05:40:%sZ","source":"x"}`, kind, second))
	}
	return fmt.Sprintf(`{"provider":"claude","project":"p","session_id":%q,"round_index":%d,"round_id":"r","model":"m","input_tokens_total":%d,"prefix_tokens":%d,"newly_append_tokens":%d,"output_tokens":%d,"reasoning_output_tokens":null,"timing_events":[%s],"tools":[{"tool_index":0,"tool_name":"Bash","emitted_at":"2026-06-01T05:40:10Z","result_at":null}]}`+"\n",
		session, round, input, prefix, input-prefix, output, strings.Join(list, ","))
}

// labFile has rounds out of order, one twice, a cache miss, a compaction, and an error message that was no request.
var labFile = labRow("a", 1, 1000, 200, 50, "tool_result=07 tool_result=08.5 reasoning=09 text=10.25 usage_report=11") +
	labRow("a", 0, 640, 320, 64, "user_message=01 reasoning=03 text=04 tool_call=05 tool_result=05.5") +
	labRow("a", 1, 1200, 0, 10, "user_message=20 text=21") +
	labRow("b", 0, 400, 330, 5, "user_message=02 text=02.5") +
	labRow("a", 2, 0, 0, 0, "text=30") +
	labRow("a", 3, 500, 192, 9, "user_message=40") +
	labRow("a", 4, 520, 500, 1, "text=41 text=44")

// waits writes what each request waits for: the request and the delay.
func waits(tr *Trace) []string {
	var all []string
	g := tr.Graph(tr.Len())
	for i := range g.Len() {
		var list []string
		for _, w := range g.Of(i) {
			sign := "+"
			if w.Trigger == OnDispatch {
				sign = "^"
			}
			list = append(list, fmt.Sprintf("%d%s%v%s", w.On, sign, time.Duration(w.DelayNS), [...]string{"", " spawn", " join", " barrier"}[w.Relation]))
		}
		if list == nil {
			list = []string{"-"}
		}
		all = append(all, strings.Join(list, " & "))
	}
	return all
}

// shared writes how many blocks each request begins with as each earlier one does.
func shared(tr *Trace) []string {
	var all []string
	for i := range tr.Len() {
		var list []string
		for j := range i {
			list = append(list, fmt.Sprint(agents.CommonPrefix(tr.Blocks(i), tr.Blocks(j))))
		}
		all = append(all, strings.Join(list, " "))
	}
	return all
}
