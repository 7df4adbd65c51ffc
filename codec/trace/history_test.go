package trace

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
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
			must.Do(t, json.Unmarshal([]byte("["+string(carryAll(tr, places, int32(i)))+"]"), &got))
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
			must.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "request %d:\n%v\n%v", i, got, want)
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
