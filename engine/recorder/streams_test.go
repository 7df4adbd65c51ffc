package recorder

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/keyed"
)

// streamRow is what a row tells of an answer.
type streamRow struct {
	Output  int      `json:"output_length"`
	First   float64  `json:"ttft_ms"`
	Took    float64  `json:"recorded_api_time_ms"`
	Answers []uint64 `json:"output_hash_ids"`
}

// TestStreams: what a row says of a streamed answer is what a client can make of it, however strange the stream. Each
// piece came a millisecond after the one before.
func TestStreams(t *testing.T) {
	says := func(choice int, text string) string {
		return fmt.Sprintf(`data: {"choices":[{"index":%d,"delta":{"content":%q}}]}`+"\n\n", choice, text)
	}
	usage := func(tokens string) string {
		return `data: {"choices":[],"usage":{"completion_tokens":` + tokens + "}}\n\n"
	}
	calls := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}` + "\n\n"
	const role = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	const finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	const done = "data: [DONE]\n\n"
	zebras := strings.Repeat(" zebra", 40) // 80 tokens of cl100k_base
	for _, w := range []struct {
		name        string
		pieces      []string
		output      int // tokens; 0 = there is no row
		first, last int // pieces, from 1; 0 = unknown
		answers     bool
		lost        string
	}{
		{"plain", []string{role, says(0, zebras), says(0, " zebra"), usage("82"), done}, 82, 2, 3, true, ""},
		{"a chunk behind the end", []string{says(0, zebras), finish, usage("80"), done, says(0, zebras)}, 80, 1, 1, true, ""},
		{"usage behind the end", []string{says(0, zebras), done, usage("7")}, 80, 1, 1, true, ""},
		{"comments", []string{": ping\n\n", says(0, zebras), ": ping\n\n", done}, 80, 2, 2, true, ""},
		{"ids and times", []string{"id: 1\nretry: 5\n" + says(0, zebras), done}, 80, 1, 1, true, ""},
		{"CRLF", []string{strings.ReplaceAll(says(0, zebras)+done, "\n", "\r\n")}, 80, 1, 1, true, ""},
		{"CR", []string{strings.ReplaceAll(says(0, zebras)+done, "\n", "\r")}, 80, 1, 1, true, ""},
		{"a mark of byte order", []string{"\ufeff" + says(0, zebras), done}, 80, 1, 1, true, ""},
		{"data of two lines", []string{strings.Replace(says(0, zebras), `,"delta"`, ",\ndata: \"delta\"", 1), done}, 80, 1, 1, true, ""},
		{"cut anywhere", strings.SplitAfter(says(0, zebras)+done, "e"), 80, 41 + 4, 41 + 4, true, ""},
		{"no blank line at the end", []string{says(0, zebras), strings.TrimSpace(done)}, 80, 1, 1, true, ""},
		{"no mark, but a reason", []string{says(0, zebras), finish}, 80, 1, 1, true, ""},
		{"no end", []string{says(0, zebras), says(0, zebras)}, 0, 0, 0, false, lostAborted},
		{"nothing but an end", []string{done}, 0, 0, 0, false, "unanswered"},
		{"an empty chunk long before", []string{says(0, ""), says(0, zebras), says(0, " a"), usage("2"), done}, 2, 2, 3, false, ""},
		{"an empty chunk that counts", []string{says(0, ""), says(0, zebras), usage("2"), done}, 2, 1, 2, false, ""},
		{"two choices", []string{says(0, zebras), says(1, "a"), says(0, " zebra"), says(1, "b"), says(1, "c"), usage("90"), done}, 82, 1, 3, true, ""},
		{"the second choice first", []string{says(1, "a"), says(0, zebras), says(1, "b"), done}, 80, 2, 2, true, ""},
		{"tools", []string{calls, calls, calls, usage("12"), done}, 12, 1, 3, false, ""},
		{"text and tools", []string{says(0, zebras), calls, usage("90"), done}, 90, 1, 2, false, ""},
		{"tools, and nobody counts", []string{calls, done}, 0, 0, 0, false, "unanswered"},
		{"usage in each chunk", []string{says(0, zebras), usage("80"), says(0, " zebra"), usage("82"), done}, 82, 1, 3, true, ""},
		{"usage that falls", []string{says(0, zebras), usage("80"), usage("40"), done}, 40, 1, 1, true, ""},
		{"usage of nothing", []string{says(0, zebras), usage("0"), done}, 80, 1, 1, true, ""},
		{"usage below nothing", []string{says(0, zebras), usage("-5"), done}, 80, 1, 1, true, ""},
		{"usage without bounds", []string{says(0, zebras), usage("99999999999999999999"), done}, 80, 1, 1, true, ""},
		{"usage of no number", []string{says(0, zebras), usage(`"many"`), done}, 80, 1, 1, true, ""},
		{"usage alone", []string{usage("5"), done}, 5, 0, 0, false, ""},
		{"another model", []string{strings.Replace(says(0, zebras), "{", `{"model":"another",`, 1), done}, 80, 1, 1, true, ""},
		{"an error in it", []string{says(0, zebras), `data: {"error":{"message":"no"}}` + "\n\n", done}, 0, 0, 0, false, lostFailed},
		{"an error by its name", []string{says(0, zebras), "event: error\ndata: {\"message\":\"no\"}\n\n"}, 0, 0, 0, false, lostFailed},
		{"an event that is no JSON", []string{says(0, zebras), "data: {]\n\n", says(0, " zebra"), done}, 82, 1, 3, true, ""},
		{"a page", []string{"<html><body>Please log in</body></html>"}, 0, 0, 0, false, "unanswered"},
		{"an answer cut", []string{answer[:40]}, 0, 0, 0, false, "unanswered"},
		{"two answers", []string{answer, answer}, 0, 0, 0, false, "unanswered"},
	} {
		t.Run(w.name, func(t *testing.T) {
			r := &Recorder{fresh: map[string]int{}, backends: backends()}
			r.hasher = must.Have(keyed.Open("", keyed.Options{Tokenizer: tokenizer.CL100K, Lenient: true}))(t)
			const ms = 1_000_000
			x := &exchange{api: "chat", status: 200, whole: true, request: []byte(asked("hello")), beganNS: 5 * ms, budget: &budget{}}
			for i, piece := range w.pieces {
				x.answer = append(x.answer, piece...)
				x.reads = append(x.reads, read{len(x.answer), int64(i+6) * ms})
			}
			r.take([]*exchange{x})
			lost := maps.Clone(r.fresh)
			for why, n := range r.hasher.Head.Lost {
				lost[why] += n
			}
			maps.DeleteFunc(lost, func(_ string, n int) bool { return n == 0 })
			want := map[string]int{}
			if w.lost != "" {
				want[w.lost] = 1
			}
			expect.Equal(t, fmt.Sprint(lost), fmt.Sprint(want), "lost")
			var got streamRow
			if len(r.pending) > 0 {
				must.Do(t, json.Unmarshal(r.pending, &got))
			}
			got.Answers = slices.Compact(got.Answers)
			expect.Equal(t, got.Output, w.output, "tokens of the answer: %s", r.pending)
			expect.Equal(t, got.First, float64(w.first), "piece with the first token")
			expect.Equal(t, got.Took, float64(w.last), "piece with the last token")
			expect.Equal(t, len(got.Answers) > 0, w.answers, "ids of the answer: %s", r.pending)
		})
	}
}
