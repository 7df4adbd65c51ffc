package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// recorderProcess is a running `fastreplay record`.
type recorderProcess struct {
	*process
	url, file string
}

// startRecorder records what passes to a server; args come last and win.
func startRecorder(t *testing.T, upstream string, args ...string) *recorderProcess {
	t.Helper()
	r := &recorderProcess{file: filepath.Join(t.TempDir(), "day.jsonl.zst")}
	r.process = start(t, nil, append([]string{"record", "--listen", "127.0.0.1:0", "--upstream", upstream, "--output", r.file,
		"--tokenizer", tokenizer.CL100K}, args...)...)
	r.url = r.listening(t)
	return r
}

// stop ends the recorder and reads its file.
func (r *recorderProcess) stop(t *testing.T) *trace.Trace {
	t.Helper()
	r.interrupt(t)
	return must.Have(trace.Open(r.file, trace.Options{Strict: true}))(t)
}

// untilGrown waits until more is in a file than there is now.
func untilGrown(t *testing.T, path string) {
	t.Helper()
	size := func() int64 { return must.Have(os.Stat(path))(t).Size() }
	before := size()
	until(t, path+" grows", func() bool { return size() > before })
}

// chatTokens are those that ChatML puts before and behind one message, as the recorder counts them.
func chatTokens(t *testing.T) string {
	tok := must.Have(tokenizer.Open(tokenizer.CL100K))(t)
	count := func(text string) int { return len(must.Have(tok.Append(nil, text, false))(t)) }
	return fmt.Sprintf("%d,%d", count("<|im_start|>user\n"), count("<|im_end|>\n")+count("<|im_start|>assistant\n"))
}

// TestRecorderKilled: a recorder that is killed amid streams leaves a file that can be read. It has the rows of all
// answers that had ended a second before, its head says no more rows than are there, and nothing of the text is in it.
func TestRecorderKilled(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	rec := startRecorder(t, m.url, "--metrics-addr", "127.0.0.1:0")
	load := steady(t, 400, 100, 20)
	r := startReplay(t, "--trace", load, "--url", rec.url)
	untilGrown(t, rec.file)
	must.Do(t, rec.Process.Kill())
	<-rec.gone
	r.signal(t, os.Interrupt)
	r.wait(t)
	day := must.Have(trace.Open(rec.file, trace.Options{}))(t)
	if day.Len() == 0 || day.Heads[0].Rows > day.Len() {
		t.Errorf("%d rows, of which the head says %d", day.Len(), day.Heads[0].Rows)
	}
	again := run(t, "--trace", rec.file, "--url", m.url, "--limit", "20", "--concurrency", "4")
	again.only(t, "ok")
}

// TestRecorderInterrupted: a recorder that is ended amid streams takes no new requests, brings the streams to their ends
// and records them, also if the signal comes twice, as from timeout(1).
func TestRecorderInterrupted(t *testing.T) {
	t.Parallel()
	rec := startRecorder(t, startMock(t, "--itl", "50ms").url)
	const streams = 5
	const asked = `{"model":"m","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"Hello"}]}`
	var all []*bufio.Reader
	for range streams {
		resp := must.Have(http.Post(rec.url+"/v1/chat/completions", "application/json", strings.NewReader(asked)))(t)
		defer resp.Body.Close()
		in := bufio.NewReader(resp.Body)
		must.Have(in.ReadString('\n'))(t)
		all = append(all, in)
	}
	rec.signal(t, syscall.SIGTERM)
	time.Sleep(10 * time.Millisecond) // or the two become one
	rec.signal(t, syscall.SIGTERM)
	until(t, "it takes no more", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(rec.url, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	for _, in := range all {
		expect.Contains(t, string(must.Have(io.ReadAll(in))(t)), "data: [DONE]")
	}
	must.Equal(t, rec.wait(t), 0, "exit code:\n%s", rec.stderr.String())
	day := must.Have(trace.Open(rec.file, trace.Options{Strict: true}))(t)
	expect.List(t, day.OutputTokens, slices.Repeat([]int32{20}, streams), "lengths of answers")
}

// TestRecorderTellsWhatIsMissing: a script learns from the exit code that rows found no room, and not that others failed.
func TestRecorderTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	for memory, want := range map[string]int{"1KB": 1, "1MB": 0} {
		m := startMock(t, "--fault", "status:503@0.2")
		rec := startRecorder(t, m.url, "--memory", memory)
		run(t, "--trace", steady(t, 20, 100, 8), "--url", rec.url, "--resend", "never")
		rec.signal(t, os.Interrupt)
		rec.ends(t, want)
		expect.Equal(t, strings.Contains(rec.stderr.String(), "rows missing: "), want == 1, "said: %s", rec.stderr.String())
	}
}

// TestRecorderFaults: whatever a server does to its clients, it does to them through the recorder: of each fault the
// same requests end in the same way. What failed is counted, and all else is recorded.
func TestRecorderFaults(t *testing.T) {
	t.Parallel()
	faults := []string{"--fault", "status:503@0.05", "--fault", "reset-before@0.05", "--fault", "reset-after:5@0.05", "--fault", "close-before@0.05",
		"--fault", "truncate:300@0.05", "--fault", "bad-json:2@0.05", "--fault", "error-event:3@0.05", "--fault", "big-event:2@0.05", "--fault", "split:3@0.1"}
	load := steady(t, 300, 300, 8)
	ends := func(url string) map[string]int {
		r := run(t, "--trace", load, "--url", url, "--concurrency", "1", "--resend", "never")
		n := map[string]int{}
		for _, l := range r.lines {
			how := l.Outcome
			if how == "reset" || how == "truncated" || how == "closed" { // a reset beyond the recorder is an end before it
				how = "broken"
			}
			n[fmt.Sprint(how, l.Status)]++
		}
		return n
	}
	direct := ends(startMock(t, faults...).url)
	rec := startRecorder(t, startMock(t, faults...).url)
	through := ends(rec.url)
	day := rec.stop(t)
	t.Logf("direct %v, through the recorder %v", direct, through)
	for how, n := range direct {
		expect.Equal(t, through[how], n, how)
	}
	if day.Len() < direct["ok200"] || day.Heads[0].Lost["failed"] == 0 || day.Heads[0].Lost["aborted"] == 0 {
		t.Errorf("%d rows of %d: %s", day.Len(), direct["ok200"], day.Heads[0])
	}
}

// TestBehindAnAnswer: what a server says behind an answer does not reach the recorder's screen.
func TestBehindAnAnswer(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	listener := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, answer+"ok"+answer+"a secret")
		}
	}()
	rec := startRecorder(t, "http://"+listener.Addr().String())
	for range 5 {
		resp := must.Have(http.Get(rec.url))(t)
		// net/http may take what came behind an answer for the next one, if that request is quick enough.
		_ = must.Have(io.ReadAll(resp.Body))(t)
		_ = resp.Body.Close()
	}
	rec.interrupt(t)
	for _, words := range []string{"secret", "HTTP/1.1"} {
		expect.Lacks(t, rec.stderr.String(), words)
	}
}

// TestRecorderKeepsOwners: whose requests they are comes back from bodies and headers, row for row, and from there into
// a second recording by a replay of the first.
func TestRecorderKeepsOwners(t *testing.T) {
	t.Parallel()
	owners := []rows.Owner{{Tenant: "acme", Model: "llama", Priority: "-1"}, {Tenant: "bolt", Model: "lora", Priority: "5"}}
	var load strings.Builder
	for i := range 20 {
		o := owners[i%3%2]
		fmt.Fprintf(&load, `{"timestamp":%d,"input_length":60,"output_length":3,"tenant":%q,"model":%q,"priority":%s,"extra":{"temperature":0.5,"user":"jane"}}`+"\n",
			i, o.Tenant, o.Model, o.Priority)
	}
	file := newFile(t, "load.jsonl", load.String())
	m := startMock(t)
	for range 2 {
		rec := startRecorder(t, m.url, "--keep", "model:plain", "--keep", "tenant=x-tenant:plain", "--keep", "priority", "--keep", "temperature")
		run(t, "--trace", file, "--url", rec.url, "--api", "chat", "--no-probe", "--model", "m", "--concurrency", "1", "--header", "x-tenant: {tenant}").only(t, "ok")
		day := rec.stop(t)
		must.Equal(t, day.Len(), 20, "rows")
		for i := range day.Len() {
			must.Equal(t, day.OwnerOf(i), owners[i%3%2], "row %d is of", i)
			must.Equal(t, string(day.Verbatim(i).Extra), `{"temperature":0.5}`, "row %d: parameters", i)
		}
		file = rec.file
	}
}

// TestRecordPage: what the manual's page on recording says to try works as it stands there, line by line; other ports
// aside.
func TestRecordPage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	page := string(readFile(t, "../cmd/fastreplay/manual/record.md"))
	_, tried, _ := strings.Cut(page, "\n## Try it\n")
	tried, _, _ = strings.Cut(tried, "\n## ")
	for _, port := range []string{"8000", "8001", "9465"} {
		free := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
		_, other, _ := net.SplitHostPort(free.Addr().String())
		must.Do(t, free.Close())
		tried = strings.ReplaceAll(tried, "127.0.0.1:"+port, "127.0.0.1:"+other)
	}
	const inBackground = " > ${#pids[@]}.out 2>&1 & pids+=($!)\nuntil grep http $((${#pids[@]} - 1)).out; do sleep 0.1; done"
	script := "set -ex\ntrap 'kill ${pids[@]}' EXIT\n"
	for command := range strings.Lines(strings.ReplaceAll(tried, "\\\n", "")) {
		command, isCode := strings.CutPrefix(strings.TrimSuffix(command, "\n"), "    ")
		switch {
		case strings.HasPrefix(command, "Interrupt the recorder"):
			script += "kill -INT ${pids[1]}; wait ${pids[1]}; unset 'pids[1]'\n"
		case isCode && (strings.HasPrefix(command, "fastreplay mock") || strings.HasPrefix(command, "fastreplay record --listen")):
			script += command + inBackground + "\n"
		case isCode:
			script += command + "\n"
		}
	}
	out, err := shell(t, t.TempDir(), "bash", "-c", script).CombinedOutput()
	must.Do(t, err, string(out))
	for _, want := range []string{"data: [DONE]", "rows_total", "fastreplay record audit day.jsonl.zst", "VALID", "TTFT"} {
		expect.Contains(t, string(out), want)
	}
}
