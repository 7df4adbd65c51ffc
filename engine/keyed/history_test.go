package keyed

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/blockhash"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// keptTalk is a log of conversations in the Responses API: once as clients write them that send all items each time,
// and once as those do who name the response before.
func keptTalk(chance *rand.Rand, conversations, turns int) (whole, kept string) {
	type conversation struct{ before, items string }
	all := make([]conversation, conversations)
	var logs [2]strings.Builder
	for n := range conversations * turns {
		c := &all[chance.IntN(conversations)]
		say := func(words int) string {
			return strings.TrimSpace(strings.Repeat([]string{"zebra ", `quokka\" `, "[ibex] "}[chance.IntN(3)], 1+chance.IntN(words)))
		}
		input := fmt.Sprintf(`"%s %d"`, say(40), n)
		items := `{"role":"user","content":` + input + `}`
		if chance.IntN(3) == 0 {
			items += `,{"type":"function_call_output","call_id":"c","output":"` + say(9) + `"}`
			input = "[ " + items + " ]"
		}
		output := fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"%s"}]}`, say(30))
		switch chance.IntN(3) {
		case 0:
			output = `{"type":"reasoning","summary":[]},` + output
		case 1:
			output = `{"type":"function_call","name":"f","arguments":"{}","call_id":"c"}`
		}
		response := fmt.Sprintf(`{"id":"resp_%d","object":"response","output":[%s],"usage":{"input_tokens":50,"output_tokens":60}}`, n, output)
		if chance.IntN(2) == 0 {
			response = asJSON("event: response.created\ndata: " + strings.Replace(`{"type":"response.created","response":`+response+"}", output, "", 1) +
				"\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + response + "}\n\n")
		}
		const line = `{"request":{"model":"m","instructions":"be kind to all animals, %d","input":%s,"store":true%s},"response":%s,"timestamp":%d}` + "\n"
		named := ""
		if c.items != "" {
			c.items += ","
			named = `,"previous_response_id":"` + c.before + `"`
		}
		c.items += items
		fmt.Fprintf(&logs[0], line, n%2, "["+c.items+"]", "", response, since1970+int64(n))
		fmt.Fprintf(&logs[1], line, n%2, input, named, response, since1970+int64(n))
		c.items += "," + output
		c.before = fmt.Sprintf("resp_%d", n)
	}
	return logs[0].String(), logs[1].String()
}

// TestServersKeepHistories: conversations whose history the server keeps become the rows that they would be if clients
// sent all of it. One that goes on from a response that nobody knows is lost, and so is what goes on from that.
func TestServersKeepHistories(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	must.Have(blockhash.OpenKey("new:" + key))(t)
	rows := func(log string) (string, *trace.Trace) {
		text, _ := convert(t, log, key, Options{Tokenizer: tokenizer.CL100K, Lenient: true})
		_, rows, _ := strings.Cut(text, "\n")
		return rows, read(t, text)
	}
	for seed := range uint64(4) {
		whole, kept := keptTalk(rand.New(rand.NewPCG(seed, 9)), 4, 8)
		want, was := rows(whole)
		got, is := rows(kept)
		wants := strings.Split(want, "\n")
		for i, row := range strings.Split(got, "\n") {
			_, row, _ = strings.Cut(row, `"input_length"`) // before it is the name of a guessed session, one of this file alone
			_, wants[i], _ = strings.Cut(wants[i], `"input_length"`)
			expect.Equal(t, row, wants[i], "row %d, seed %d", i, seed)
		}
		for i := range is.Len() {
			for j := range i {
				expect.Equal(t, is.Session[i] == is.Session[j], was.Session[i] == was.Session[j], "one session of %d and %d", i, j)
			}
		}
		expect.Equal(t, is.Heads[0].LostWords(), "none", "lost")
		first := strings.Index(kept, `"previous_response_id":"`) + len(`"previous_response_id":"`)
		_, is = rows(kept[:first] + "resp_of_yesterday" + kept[first+strings.IndexByte(kept[first:], '"'):])
		head := is.Heads[0]
		if head.Lost["malformed"] < 1 || head.Rows+head.Lost["malformed"] != 32 {
			t.Errorf("%d rows, lost: %s", head.Rows, head.LostWords())
		}
	}
}
