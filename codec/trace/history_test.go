package trace

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// carried shows a place: what is to be replaced stands between |.
func carried(tr *Trace, i int, c Carried) string {
	if c.Of == NoTurn {
		return "none"
	}
	if c.Fixed {
		return fmt.Sprintf("%d fixed", c.Of)
	}
	content := tr.Verbatim(i).Content
	return fmt.Sprintf("%d %s|%s", c.Of, content[c.From:c.To], content[c.To:])
}

func TestCarries(t *testing.T) {
	const sys, hi, hello, why = `{"role":"system","content":"Be brief."}`, `{"role":"user","content":"Hi"}`, `{"role":"assistant","content":"Hello."}`, `{"role":"user","content":"Why?"}`
	mooncake := func(rows ...string) string {
		var file strings.Builder
		for i, messages := range rows {
			fmt.Fprintf(&file, `{"timestamp":%d,"session_id":"s","messages":[%s]}`+"\n", i, messages)
		}
		return file.String()
	}
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"multi_turn with answers":    {`{"turns":[{"role":"system","text":"Be brief."},{"text":"Hi"},{"role":"assistant","text":"Hello."},{"text":"Why?"}]}`, []string{"none", "0 ," + hello + "|," + why}},
		"multi_turn without":         {`{"turns":[{"text":"Hi"},{"text":"Why?"},{"text":"Hi"}]}`, []string{"none", "0 |," + why, "1 |," + hi}},
		"multi_turn, system between": {`{"turns":[{"text":"Hi"},{"role":"system","text":"Be brief."},{"text":"Why?"}]}`, []string{"none", "0 |," + sys + "," + why}},
		"multi_turn, answered late":  {`{"turns":[{"text":"Hi"},{"role":"system","text":"Be brief."},{"role":"assistant","text":"Hello."},{"text":"Why?"}]}`, []string{"none", "0 fixed"}},
		"multi_turn, answered twice": {`{"turns":[{"text":"Hi"},{"role":"assistant","text":"Hello."},{"role":"assistant","text":"Hello."},{"text":"Why?"}]}`, []string{"none", "0 ," + hello + "|," + hello + "," + why}},
		"sharegpt": {`[{"id":"a","conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello."},{"from":"human","value":"Why?"},{"from":"gpt","value":"x"},{"from":"human","value":"Hi"},{"from":"gpt","value":"x"}]}]`,
			[]string{"none", "0 ," + hello + "|," + why, `1 ,{"role":"assistant","content":"x"}|,` + hi}},
		"sharegpt, a tool": {`[{"conversations":[{"from":"human","value":"Hi"},{"from":"function_call","value":"f()"},{"from":"observation","value":"1"},{"from":"gpt","value":"x"}]}]`, []string{"none", "0 fixed"}},
		"mooncake":         {mooncake(sys+","+hi, sys+","+hi+","+hello+","+why), []string{"none", "0 ," + hello + "|," + why}},
		"mooncake, spaces": {mooncake(" "+hi+" ", " "+hi+" , "+hello+" ,\t"+why+" "), []string{"none", "0  , " + hello + "| ,\t" + why + " "}},
		"mooncake, tools": {mooncake(hi, hi+`,{"role":"assistant","content":null,"tool_calls":[{"id":"x"}]},{"role":"tool","content":"1"}`, hi+`,{"role":"assistant","content":"f"},{"role":"tool","content":"1"}`),
			[]string{"none", "0 fixed", "0 fixed"}},
		"mooncake, no calls":        {mooncake(hi, hi+`,{"role":"assistant","content":"Hello.","tool_calls":null},`+why), []string{"none", `0 ,{"role":"assistant","content":"Hello.","tool_calls":null}|,` + why}},
		"mooncake, others":          {mooncake(hi, why, hi[:len(hi)-1]+`,"name":"x"},`+hello+","+why), []string{"none", "none", "none"}},
		"mooncake, the same again":  {mooncake(hi, hi+","+hello+","+why, hi+","+hello+","+why), []string{"none", "0 ," + hello + "|," + why, "0 ," + hello + "|," + why}},
		"mooncake, a branch":        {mooncake(hi, hi+","+hello+","+why, hi+","+hello+","+hi), []string{"none", "0 ," + hello + "|," + why, "0 ," + hello + "|," + hi}},
		"mooncake, ends in answer":  {mooncake(hi, hi+","+hello), []string{"none", "0 fixed"}},
		"mooncake, no role":         {mooncake(hi, hi+`,{"content":"x"},`+why), []string{"none", "0 fixed"}},
		"single_turn":               {`{"session_id":"a","text":"Hi"}` + "\n" + `{"session_id":"a","text":"Why?"}`, []string{"none", "none"}},
		"mooncake, prompts of text": {`{"session_id":"a","text_input":"Hi"}` + "\n" + `{"session_id":"a","text_input":"Hi, Why?"}`, []string{"none", "none"}},
	} {
		tr := read(t, c.file, Options{})
		for i, got := range tr.Carries(tr.TurnsBefore(tr.Len())) {
			if s := carried(tr, i, got); s != c.want[i] {
				t.Errorf("%s, request %d:\ngot  %s\nwant %s", name, i, s, c.want[i])
			}
		}
	}
}

// TestCarriesAll puts answers into random conversations and compares with what encoding/json makes of the messages:
// nothing but the answers is other than recorded.
func TestCarriesAll(t *testing.T) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var said []message
		var turns []string
		asked := 0
		answers := map[int]int{} // place in said → request
		for asked < 6 {
			said = append(said, message{"user", fmt.Sprintf("q%d \"\\ é", asked)})
			if rng.IntN(3) > 0 {
				answers[len(said)] = asked
				said = append(said, message{"assistant", fmt.Sprintf("a%d", asked)})
			}
			asked++
		}
		for _, m := range said {
			text, _ := json.Marshal(m.Content)
			turns = append(turns, fmt.Sprintf(`{"role":%q,"text":%s}`, m.Role, text))
		}
		tr := read(t, `{"turns":[`+strings.Join(turns, ",")+`]}`, Options{})
		places := tr.Carries(tr.TurnsBefore(tr.Len()))
		for i := range tr.Len() {
			var got []message
			noError(t, json.Unmarshal([]byte("["+string(carryAll(tr, places, int32(i)))+"]"), &got))
			var want []message
			for at, n := 0, 0; n <= i; at++ {
				m := said[at]
				if m.Role == "user" {
					want = append(want, m)
					if n++; n <= i && (at+1 == len(said) || said[at+1].Role == "user") {
						want = append(want, message{"assistant", fmt.Sprintf("live%d", n-1)})
					}
				} else {
					want = append(want, message{"assistant", fmt.Sprintf("live%d", answers[at])})
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("request %d\ngot  %v\nwant %v", i, got, want)
			}
		}
	}
}

// carryAll is request i's messages with live answers, put in from the last one to the first.
func carryAll(tr *Trace, places []Carried, i int32) []byte {
	content := append([]byte(nil), tr.Verbatim(int(i)).Content...)
	for j := i; places[j].Of != NoTurn; j = places[j].Of {
		c := places[j]
		live := AppendAnswer(nil, fmt.Appendf(nil, "live%d", c.Of))
		content = append(append(append([]byte(nil), content[:c.From]...), live...), content[c.To:]...)
	}
	return content
}
