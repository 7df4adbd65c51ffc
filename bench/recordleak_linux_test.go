package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
)

// TestRecorderTellsNoWord: no word of a prompt, an answer or a name, and nothing of the key, is in what the recorder
// writes, prints or serves, nor in its command line, even if it crashes; and a crash leaves no core file.
func TestRecorderTellsNoWord(t *testing.T) {
	t.Parallel()
	const word = "xylophonist"
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":"the %s plays"}}],"usage":{"completion_tokens":5}}`, word)
	})
	dir := t.TempDir()
	day, key := filepath.Join(dir, "day.jsonl.zst"), filepath.Join(dir, "key")
	crashing := []string{"sh", "-c", `ulimit -c unlimited; GOTRACEBACK=crash exec "$@"`, "sh"}
	rec := startInDir(t, dir, crashing, "record", "--listen", "127.0.0.1:0", "--upstream", url, "--output", day, "--tokenizer", tokenizer.CL100K,
		"--key-file", "new:"+key, "--keep", "model", "--keep", "tenant=x-tenant", "--metrics-addr", "127.0.0.1:0")
	to := rec.listening(t)
	for range 20 {
		body := fmt.Sprintf(`{"model":"lora-%s","user":%q,"messages":[{"role":"user","content":"Who is the %s?"}]}`, word, word, strings.Repeat(word+" ", 40))
		req := must.Have(http.NewRequest(http.MethodPost, to+"/v1/chat/completions", strings.NewReader(body)))(t)
		req.Header.Set("X-Session-Id", word)
		req.Header.Set("X-Tenant", word)
		resp := must.Have(http.DefaultClient.Do(req))(t)
		_ = must.Have(io.ReadAll(resp.Body))(t)
		_ = resp.Body.Close()
	}
	untilGrown(t, day)
	said := map[string]string{"the command line": string(readFile(t, fmt.Sprintf("/proc/%d/cmdline", rec.Process.Pid)))}
	must.Do(t, rec.Process.Signal(syscall.SIGABRT))
	<-rec.gone
	how := rec.ProcessState.Sys().(syscall.WaitStatus)
	expect.Equal(t, how.Signal(), syscall.SIGABRT, "it ended by:\n%s", rec.stderr.String())
	expect.Equal(t, how.CoreDump(), false, "there is a core file")
	z := must.Have(zstd.NewReader(bytes.NewReader(readFile(t, day))))(t)
	defer z.Close()
	said["the file"] = string(must.Have(io.ReadAll(z))(t))
	said["the packed file"] = string(readFile(t, day))
	said["standard output"] = rec.stdout.String()
	said["standard error"] = rec.stderr.String()
	expect.Contains(t, said["standard error"], "goroutine ", "the crash")
	expect.Contains(t, said["the file"], `"tenant":"`, "the file")
	secret := strings.TrimSpace(string(readFile(t, key)))
	for where, text := range said {
		expect.Lacks(t, text, word, where)
		expect.Lacks(t, text, secret[:12], "the key in "+where)
	}
}
