package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// The conversations of these tests: each question begins with its name, c7t2 for turn 2 of conversation 7. Everything
// about it follows from the name.
const (
	liveConversations = 100
	liveTurns         = 4
)

func turnName(conversation, turn int) string { return fmt.Sprintf("c%dt%d", conversation, turn) }

// turnOf reads a turn's name.
func turnOf(name string) (conversation, turn int, err error) {
	_, err = fmt.Sscanf(name, "c%dt%d", &conversation, &turn)
	return conversation, turn, err
}

// nextTurn is the turn after one, "" for the last of a conversation.
func nextTurn(name string) string {
	conversation, turn, err := turnOf(name)
	if err != nil || turn == liveTurns-1 {
		return ""
	}
	return turnName(conversation, turn+1)
}

func turnRand(name string) *rand.Rand {
	seed := uint64(len(name))
	for _, c := range []byte(name) {
		seed = seed*1099511628211 + uint64(c)
	}
	return rand.New(rand.NewPCG(seed, 7))
}

// spoken is what a server says to a turn.
type spoken struct {
	kind  string        // text, error, cut, bad, tool or muted
	text  string        // as a client decodes it
	delay time.Duration // before it says it
	slow  bool          // it says it too late for the next turn, if that one does not wait
	parts []string      // the text as it stands in the JSON of the events, one after the other
}

// speak makes the answer to a turn: text that needs every kind of escape. It is cut into events anywhere, between the
// halves of a pair and inside a character too.
func speak(name string) spoken {
	rng := turnRand(name)
	s := spoken{kind: "text", delay: time.Duration(1+rng.IntN(15)) * time.Millisecond}
	switch rng.IntN(16) {
	case 0:
		s.kind = "error"
	case 1:
		s.kind = "cut"
	case 2:
		s.kind = "bad"
	case 3:
		s.kind = "tool"
	case 4:
		s.kind = "muted"
	}
	if s.slow = rng.IntN(6) == 0; s.slow {
		s.delay = 300 * time.Millisecond
	}
	s.text = "live " + name + " "
	for range rng.IntN(60) {
		s.text += []string{"a", " word", "\"", "\\", "\n", "\t", "\x00", "/", "é", "漢", "😀", "</script>", "\u2028", "'", "{", "\x7f"}[rng.IntN(16)]
	}
	tokens := escapeAnyhow(rng, s.text)
	if rng.IntN(8) == 0 { // an answer that ends inside a character
		tokens, s.text = append(tokens, `\ud83d`), s.text+"\ufffd"
	}
	s.parts = []string{""}
	for _, token := range tokens {
		if rng.IntN(3) == 0 {
			s.parts = append(s.parts, "")
		}
		s.parts[len(s.parts)-1] += token
	}
	return s
}

// escapeAnyhow is text as pieces of the inside of a JSON string.
func escapeAnyhow(rng *rand.Rand, text string) (tokens []string) {
	for _, r := range text {
		short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\t': `\t`}[r]
		switch {
		case rng.IntN(3) == 0 || r < ' ' && short == "":
			for _, unit := range utf16.Encode([]rune{r}) {
				tokens = append(tokens, fmt.Sprintf([]string{`\u%04x`, `\u%04X`}[rng.IntN(2)], unit))
			}
		case short != "":
			tokens = append(tokens, short)
		case r == '/' && rng.IntN(2) == 0:
			tokens = append(tokens, `\/`)
		default:
			for _, b := range []byte(string(r)) {
				tokens = append(tokens, string([]byte{b}))
			}
		}
	}
	return tokens
}

// surrogates finds the first half of a pair in JSON, and the second if it is there.
var surrogates = regexp.MustCompile(`\\u[dD][89abAB]..(\\u[dD][c-fC-F]..)?`)

// talker is a server that answers as speak has it and remembers what it was asked.
type talker struct {
	strict bool // no turn waits for the one before it

	mu     sync.Mutex
	bodies map[string]map[string]any // by turn
	faults []string
}

func (s *talker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var body map[string]any
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if input, is := body["input"]; is {
		body["messages"] = input
		delete(body, "input")
	}
	messages, _ := body["messages"].([]any)
	for _, pair := range surrogates.FindAllSubmatch(text, -1) {
		if len(pair[1]) == 0 {
			err = fmt.Errorf("half of a pair: %s", pair[0])
		}
	}
	if err != nil || len(messages) == 0 || !utf8.Valid(text) {
		s.note("", nil, fmt.Sprintf("%v: %s", err, text))
		return
	}
	question, _ := messages[len(messages)-1].(map[string]any)["content"].(string)
	name, _, _ := strings.Cut(question, " ")
	s.note(name, body, "")
	a := speak(name)
	time.Sleep(a.delay)
	for s.strict && a.slow && !s.wasAsked(nextTurn(name)) && r.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	switch {
	case a.kind == "error":
		http.Error(w, `{"error":{"message":"no"}}`, http.StatusInternalServerError)
	case body["stream"] == true:
		a.stream(w)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		a.message(w)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		a.response(w)
	default:
		a.whole(w)
	}
}

// wasAsked says whether a turn was asked; "" was.
func (s *talker) wasAsked(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return name == "" || s.bodies[name] != nil
}

func (s *talker) note(name string, body map[string]any, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodies[name] != nil {
		fault = name + " was asked twice"
	}
	if fault != "" {
		s.faults = append(s.faults, fault)
	}
	s.bodies[name] = body
}

func (a *spoken) stream(w http.ResponseWriter) {
	say := func(delta, finish string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"x","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`+"\n\n", delta, finish)
		w.(http.Flusher).Flush()
	}
	say(`"role":"assistant","content":""`, "null")
	say(`"reasoning_content":"I think "`, "null")
	say(`"reasoning_content":"so."`, "null")
	for i, part := range a.parts {
		switch {
		case a.kind == "muted":
			say(`"reasoning_content":"`+part+`"`, "null")
		case a.kind == "bad" && i == len(a.parts)-1:
			say(`"content":"`+part+`\x"`, "null")
		default:
			say(`"content":"`+part+`"`, "null")
		}
	}
	if a.kind == "tool" {
		say(`"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{"}}]`, "null")
		say(`"tool_calls":[{"index":0,"function":{"arguments":"}"}}]`, "null")
	}
	if a.kind == "cut" {
		return
	}
	say("", `"stop"`)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

func (a *spoken) whole(w http.ResponseWriter) {
	content, tools, finish := `"`+strings.Join(a.parts, "")+`"`, "", `"stop"`
	switch a.kind {
	case "cut":
		finish = "null"
	case "bad":
		content = `"\x"`
	case "tool":
		tools = `,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]`
	case "muted":
		content = `null,"reasoning_content":` + content
	}
	_, _ = fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":%s%s},"finish_reason":%s}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, content, tools, finish)
}

// inParts is the answer as a list of the parts of a content.
func (a *spoken) inParts(text, thought, tool string) string {
	content := strings.Join(a.parts, "")
	switch a.kind {
	case "bad":
		content = `\x`
	case "muted":
		return fmt.Sprintf(thought, content)
	case "tool":
		return fmt.Sprintf(text, content) + "," + tool
	}
	return fmt.Sprintf(thought, "hm") + "," + fmt.Sprintf(text, content)
}

func (a *spoken) message(w http.ResponseWriter) {
	reason := `"end_turn"`
	if a.kind == "cut" {
		reason = "null"
	}
	_, _ = fmt.Fprintf(w, `{"type":"message","content":[%s],"stop_reason":%s,"usage":{"input_tokens":3,"output_tokens":2}}`,
		a.inParts(`{"type":"text","text":"%s"}`, `{"type":"thinking","thinking":"%s"}`, `{"type":"tool_use","name":"f","input":{}}`), reason)
}

func (a *spoken) response(w http.ResponseWriter) {
	status := "completed"
	if a.kind == "cut" {
		status = "failed"
	}
	_, _ = fmt.Fprintf(w, `{"object":"response","status":"%s","output":[%s],"usage":{"input_tokens":3,"output_tokens":2}}`, status,
		a.inParts(`{"type":"message","content":[{"type":"output_text","text":"%s"}]}`, `{"type":"reasoning","content":[{"type":"reasoning_text","text":"%s"}]}`, `{"type":"function_call","name":"f"}`))
}

// liveFile writes the conversations: with the answers that were recorded, or with the questions alone.
func liveFile(t *testing.T, format string) string {
	t.Helper()
	var file strings.Builder
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for c := range liveConversations {
		var turns, said []string
		for k := range liveTurns {
			at := 4*c + 120*k
			question, answer := quote(turnName(c, k)+" asks \"why\"? 😀\n"), quote("recorded "+turnName(c, k)+" é")
			turns = append(turns, fmt.Sprintf(`{"text":%s,"timestamp":%d,"output_length":9}`, question, at))
			if format == "multi_turn" {
				turns = append(turns, fmt.Sprintf(`{"role":"assistant","text":%s}`, answer))
			}
			said = append(said, fmt.Sprintf(`{ "role":"user","content":%s}`, question))
			if format == "mooncake" {
				fmt.Fprintf(&file, `{"timestamp":%d,"session_id":"s%d","messages":[ {"role":"system","content":"Be brief."} , %s ],"tools":[{"type":"function","function":{"name":"f"}}],"extra":{"temperature":0.5},"output_length":9}`+"\n",
					at, c, strings.Join(said, " ,"))
			}
			said = append(said, fmt.Sprintf(`{"content":%s , "role":"assistant","name":"x"}`, answer))
		}
		if format != "mooncake" {
			fmt.Fprintf(&file, `{"session_id":"s%d","turns":[%s]}`+"\n", c, strings.Join(turns, ","))
		}
	}
	return newFile(t, "live.jsonl", file.String())
}

// talk replays a file and returns what the server was asked, by turn.
func talk(t *testing.T, args ...string) (*results, map[string]map[string]any) {
	t.Helper()
	s := &talker{bodies: map[string]map[string]any{}, strict: slices.Contains(args, "strict")}
	server := httptest.NewUnstartedServer(s)
	t.Cleanup(server.Close)
	if slices.Contains(args, "--insecure") {
		server.StartTLS()
	} else {
		server.Start()
	}
	r := run(t, with(args, "--url", server.URL, "--no-probe", "--model", "m", "--cold", "off", "--max-error-rate", "1")...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) > 0 || len(s.bodies) != liveConversations*liveTurns {
		t.Fatalf("%d turns asked, want %d; %q\n%s", len(s.bodies), liveConversations*liveTurns, s.faults, r.stderr)
	}
	return r, s.bodies
}

// TestLiveHistory compares each body with the one that is sent without live history, after the server's answers are put
// into it. Nothing else may differ.
func TestLiveHistory(t *testing.T) {
	t.Parallel()
	formats := []string{"multi_turn", "questions", "mooncake"}
	otherAPIs := []string{"messages", "responses", "messages"}
	for m, mode := range []string{"strict", "gated", "think"} {
		for s, stream := range [][]string{{"--api", "chat"}, {"--api", "chat", "--no-stream"}, {"--api", otherAPIs[m], "--no-stream"}} {
			if testing.Short() && s != m || s == (m+2)%3 { // each way of each is there twice
				continue
			}
			format := formats[(m+s)%len(formats)]
			if s == 2 {
				format = formats[m%2] // in the form of chats alone there are tools
			}
			t.Run(strings.TrimSpace(fmt.Sprintln(mode, format, stream)), func(t *testing.T) {
				t.Parallel()
				path := liveFile(t, format)
				args := with(stream, path)
				plain, recorded := talk(t, with([]string{"--no-fixed-schedule", "--concurrency", "100"}, args...)...)
				if mode == "gated" {
					args = append(args, "--max-memory", "40kB") // the recorded forms are built during the run
				}
				if mode == "think" {
					if s < 2 {
						args = append(args, "--insecure") // over https
					}
					args = append(args, "--assume-latency", "100ms,1ms")
				}
				args = with([]string{"--sessions", mode, "--history", "live"}, args...)
				var r *results
				var live map[string]map[string]any
				scale := 1.0
				quickEnough(t, func() string {
					r, live = talk(t, with([]string{"--scale", fmt.Sprint(scale)}, args...)...)
					scale /= 10
					if h := r.summary.History; mode == "strict" && h != nil && (h.Live == 0 || h.Partly == 0) {
						return fmt.Sprintf("hardly an answer was in time for the next turn: %+v", h)
					}
					return ""
				})
				if plain.summary.History != nil || r.summary.History == nil {
					t.Fatalf("history %+v, without the flag %+v", r.summary.History, plain.summary.History)
				}
				if mode == "gated" && r.summary.BuildAhead == nil {
					t.Error("nothing was built during the run")
				}
				var want metrics.History
				records := map[string]int64{}
				for _, l := range r.lines {
					records[l.History]++
				}
				for name := range recorded {
					checkLive(t, &want, mode == "strict", name, recorded[name], live[name])
				}
				got := *r.summary.History
				if got.MakeUS == nil {
					t.Errorf("%+v", got)
				}
				got.MakeUS = nil
				if why := got.Why; mode == "strict" {
					if why.Late == 0 || why.Late+why.Failed+why.NoText+why.Tools+why.Apart != got.Partly+got.Recorded {
						t.Errorf("%+v", got)
					}
					got.Why, want.Why = metrics.HistoryGaps{}, metrics.HistoryGaps{} // the bodies do not say why
				}
				expect.Equal(t, got, want, "summary")
				said := map[string]int64{"": liveConversations, "live": want.Live, "partly": want.Partly, "recorded": want.Recorded}
				if !reflect.DeepEqual(records, said) {
					t.Errorf("the records say %v, the bodies %v", records, said)
				}
				if want.Live == 0 || want.Partly == 0 || want.Recorded == 0 {
					t.Errorf("not all kinds occurred: %+v", want)
				}
				if !strings.Contains(r.stderr, "\nhistory\n") || r.summary.Tokens.PromptMismatches != 0 {
					t.Errorf("%+v\n%s", r.summary.Tokens, r.stderr)
				}
				t.Logf("%+v", want)
			})
		}
	}
}

// checkLive checks the body of one turn and counts it.
func checkLive(t *testing.T, count *metrics.History, strict bool, name string, recorded, live map[string]any) {
	t.Helper()
	conversation, turn, err := turnOf(name)
	must.Do(t, err)
	messages, sent := recorded["messages"].([]any), live["messages"].([]any)
	roleOf := func(m any) any { return m.(map[string]any)["role"] }
	var want []any
	lives, asked, lack := int64(0), 0, ""
	for i, m := range messages {
		if roleOf(m) == "assistant" {
			continue // it stands behind its question, or another one does
		}
		want = append(want, m)
		if roleOf(m) != "user" || i == len(messages)-1 {
			continue
		}
		a := speak(turnName(conversation, asked))
		asked++
		said := any(map[string]any{"role": "assistant", "content": a.text})
		late := strict && (len(sent) <= len(want) || !reflect.DeepEqual(sent[len(want)], said))
		switch {
		case a.kind == "text" && !late:
			want = append(want, said)
			lives++
			continue
		case roleOf(messages[i+1]) == "assistant":
			want = append(want, messages[i+1])
		}
		lack = a.kind
	}
	must.Equal(t, asked, turn, "%s questions before it", name)
	recorded["messages"] = want
	if !reflect.DeepEqual(live, recorded) {
		t.Errorf("%s:\ngot  %v\nwant %v", name, live, recorded)
	}
	if turn > 0 {
		countLive(count, lives, lack)
	}
}

// countLive counts a follow-up turn with some live answers, of which the latest that is not was of some kind; "" =
// there was none.
func countLive(h *metrics.History, lives int64, lack string) {
	h.Turns++
	h.Answers += lives
	switch {
	case lack == "":
		h.Live++
	case lives > 0:
		h.Partly++
	default:
		h.Recorded++
	}
	switch lack {
	case "error", "cut", "bad":
		h.Why.Failed++
	case "tool":
		h.Why.Tools++
	case "muted":
		h.Why.NoText++
	}
}
