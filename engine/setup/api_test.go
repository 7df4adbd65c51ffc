package setup

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestChooseAPI: what is chosen, or why it is refused, is what testdata/api.txt says.
func TestChooseAPI(t *testing.T) {
	for line := range strings.Lines(string(must.Have(os.ReadFile("testdata/api.txt"))(t))) {
		given, want, is := strings.Cut(strings.TrimSpace(line), " → ")
		if !is {
			continue
		}
		options, of, _ := strings.Cut(given, " of ")
		var o Options
		must.Do(t, json.Unmarshal([]byte(options), &o), line)
		l := verbatims{chat: strings.HasPrefix(of, "messages")}
		if at := strings.Index(of, "/"); at >= 0 {
			l.endpoint = of[at:]
		}
		err := o.chooseAPI(&l)
		if why, refused := strings.CutPrefix(want, "refused: "); refused {
			expect.Error(t, err, why, given)
			continue
		}
		must.Do(t, err, given)
		expect.Equal(t, o.API+" "+o.Prompt, want, given)
	}
}
