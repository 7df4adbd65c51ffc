package mockllm

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

var update = flag.Bool("update", false, "write the transcripts anew")

const transcripts = "testdata/transcripts.txt"

// transcriptConfigs are the servers that the transcripts name. A server lives as long as the next transcripts name it
// too.
func transcriptConfigs() map[string]Config {
	https, _, err := SelfSigned("")
	if err != nil {
		panic(err)
	}
	return map[string]Config{
		"plain": {}, "cache": {CacheTokens: -1}, "pool": {CacheTokens: 70}, "gzip": {Gzip: true}, "https": {TLS: https},
		"blocks": {CacheTokens: -1, BlockTokens: 5}, "seed": {Seed: 2},
		"parts":  {ReasoningTokens: 1, ToolTokens: 2},
		"chunks": {TokensPerChunk: 2, EmptyChunks: 0.5, Coalesce: true},
		"fields": {Stamp: true, BodyFields: []string{"nvext.worker_id={instance}", "nvext.zone=a", "who=x"}, Instance: 7,
			Headers: []string{"x-instance: m{instance}"}, CRLF: true, Comments: true},
		"finish": {FinishChunk: true, LateHead: true}, "incremental": {Incremental: true}, "no-replay": {NoTraceReplay: true},
		"no-cached": {CacheTokens: -1, NoCachedTokens: true}, "omit-zero": {CacheTokens: -1, OmitZeroCached: true},
		"template": {CacheTokens: -1, TemplateHead: 3, TemplateTail: 2, BOSTokens: 1}, "jitter": {TemplateHead: 4, TemplateTail: 2, TemplateJitter: 2},
		"strict": {Model: "m", APIKey: "secret", MaxModelTokens: 50, NoFlush: true, CacheTokens: 1600},
		"bare":   {NoTokenize: true, NoMetrics: true, NoHeaderFaults: true, RefuseExtras: true},
	}
}

// transcript is a request and what its client gets. Its first line has the server's name, the method, the path and
// headers after "; ". The second line is the body, the others are the answer.
type transcript struct{ request, body, answer string }

func (c *transcript) String() string { return c.request + "\n" + c.body + "\n" + c.answer }

func readTranscripts(t testing.TB) (all []transcript) {
	t.Helper()
	text := must.Have(os.ReadFile(transcripts))(t)
	for _, block := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n====\n") {
		request, rest, _ := strings.Cut(block, "\n")
		body, answer, _ := strings.Cut(rest, "\n")
		all = append(all, transcript{request, body, answer})
	}
	return all
}

// config is the name of the transcript's server.
func (c *transcript) config() string { return strings.Fields(c.request)[0] }

// send sends the request. IDS and WORDS in its body stand for 40 tokens.
func (c *transcript) send(ts *testServer, header ...string) (answer string) {
	ts.t.Helper()
	line, pairs, _ := strings.Cut(c.request, "; ")
	words := strings.Fields(line)
	body := strings.NewReplacer("IDS", strings.TrimSuffix(strings.Repeat("7,", 40), ","), "WORDS", strings.TrimSpace(strings.Repeat("w ", 40))).Replace(c.body)
	req := ts.request(words[2], body, append([]string{"X-Request-Id", "r"}, header...)...)
	req.Method = words[1]
	for _, pair := range strings.Split(pairs, "; ") {
		if name, value, ok := strings.Cut(pair, ": "); ok {
			req.Header.Set(name, value)
		}
	}
	var b strings.Builder
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { fmt.Fprintln(&b, "interim", code); return nil },
	}))
	if words[2] == "/metrics" { // a client may see the end of an answer first
		eventually(ts.t, "all is counted", func() bool { st := ts.counts(); return st.Requests == st.Ended })
	}
	resp, err := ts.client.Do(req)
	if err != nil {
		return b.String() + failureOf(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	length := min(resp.ContentLength, 1) // -1: unknown, 1: any; net/http has compared it with the body
	fmt.Fprintf(&b, "%d length %d close %t compressed %t\n", resp.StatusCode, length, resp.Close, resp.Uncompressed)
	for _, name := range slices.Sorted(mapKeys(resp.Header)) {
		if name != "Content-Length" && name != "Date" {
			fmt.Fprintf(&b, "%s: %s\n", name, resp.Header.Get(name))
		}
	}
	if failure := failureOf(err); failure == "reset" { // what came before it, the kernel may drop
		return b.String() + failure
	} else if failure != "" {
		text = append(text, "\n"+failure...)
	}
	return masked(b.String() + "\n" + string(text))
}

func mapKeys(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}

// failureOf names an exchange's error; "" if there is none.
func failureOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut short"
	case errors.Is(err, io.EOF):
		return "closed"
	}
	return "not HTTP"
}

var (
	moments = regexp.MustCompile(`("created"|"created_at"|"completed_at"|"sent_ns"|process_start_time_seconds |-Time: |"e2e_latency"|time_ms"|Time-Per-Token: ):?[0-9.]+(e-[0-9]+)?`)
	padding = regexp.MustCompile(`x{100,}`)
)

// masked hides what differs between two runs, and makes carriage returns visible.
func masked(text string) string {
	text = moments.ReplaceAllString(text, "${1}N")
	text = padding.ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprint("x times ", len(s)) })
	return strings.TrimRight(strings.ReplaceAll(text, "\r", "␍"), "\n")
}

// TestTranscripts compares what a client gets, byte for byte, with testdata/transcripts.txt. It has every protocol
// streamed and whole, each form of an answer, and every page, refusal and fault. If a change of those bytes is meant,
// run: go test ./bench/mockllm -run TestTranscripts -update
func TestTranscripts(t *testing.T) {
	all := readTranscripts(t)
	configs := transcriptConfigs()
	var ts *testServer
	var out []string
	for i := range all {
		c := &all[i]
		if i == 0 || c.config() != all[i-1].config() {
			cfg, known := configs[c.config()]
			if !known {
				t.Fatalf("no server %q", c.config())
			}
			ts = start(t, cfg)
			ts.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			ts.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		}
		got := c.send(ts)
		if got != c.answer && !*update {
			t.Errorf("%s\n%s\ngot  %s\nwant %s", c.request, c.body, got, c.answer)
		}
		c.answer = got
		out = append(out, c.String())
		ts.client.CloseIdleConnections() // many a fault ends with the server's FIN
	}
	if *update {
		must.Do(t, os.WriteFile(transcripts, []byte(strings.Join(out, "\n====\n")+"\n"), 0o644))
	}
}

// TestNoFaultHangs commits every fault in a request of each path, with one slot and little cache. Afterwards the
// slot is free.
func TestNoFaultHangs(t *testing.T) {
	ts := start(t, Config{CacheTokens: 160, Gzip: true, Slots: 1})
	seen := map[string]bool{}
	for _, c := range readTranscripts(t) {
		form := fmt.Sprint(strings.Fields(c.request)[2], strings.Contains(c.body, `"stream":true`))
		if strings.Contains(c.request, "; ") || seen[form] {
			continue
		}
		seen[form] = true
		for _, fault := range []string{"reset-before", "close-before", "reset-after:0", "truncate:0", "truncate:3", "slow-bytes:1us", "split", "bad-json:1",
			"bad-chunk:1", "bad-status", "error-event:0", "error-event:3", "no-finish", "short:1", "big-event:1000", "interim", "no-length"} {
			c.send(ts, "X-Mock-Fault", fault, "Connection", "close")
		}
	}
	eventually(t, "the slot is free", func() bool { st := ts.counts(); return st.Running == 0 && st.Waiting == 0 && st.HeldBlocks == 0 })
	if c := ts.counts(); c.Requests < 200 {
		t.Errorf("only %d requests were sent", c.Requests)
	}
}
