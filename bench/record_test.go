package bench

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
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
	until(t, "the recorder listens", func() bool {
		if r.ended() {
			t.Fatalf("the recorder ended:\n%s", r.stderr.String())
		}
		line, err := bufio.NewReader(strings.NewReader(r.stdout.String())).ReadString('\n')
		r.url, _ = strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		return err == nil && r.url != ""
	})
	return r
}

// stop ends the recorder and reads its file.
func (r *recorderProcess) stop(t *testing.T) *trace.Trace {
	t.Helper()
	r.signal(t, os.Interrupt)
	must.Equal(t, r.wait(t), 0, "the recorder ended:\n%s", r.stderr.String())
	return must.Have(trace.Open(r.file, trace.Options{Strict: true}))(t)
}

// chatTokens are those that ChatML puts before and behind one message, as the recorder counts them.
func chatTokens(t *testing.T) string {
	tok := must.Have(tokenizer.Open(tokenizer.CL100K))(t)
	count := func(text string) int { return len(must.Have(tok.Append(nil, text, false))(t)) }
	return fmt.Sprintf("%d,%d", count("<|im_start|>user\n"), count("<|im_end|>\n")+count("<|im_start|>assistant\n"))
}

// TestRecord: what is replayed through the recorder comes back as a trace of the same lengths, the same hits of an ideal
// cache, row for row, and, replayed, of the same hits of a server. That holds for each API, streamed or not.
func TestRecord(t *testing.T) {
	t.Parallel()
	load := generate(t, "--rows", "40", "--rate", "100", "--arrival", "constant", "--input-tokens", "200:700", "--output-tokens", "20",
		"--reuse", "0.5", "--format", "bailian")
	for _, b := range backends() {
		for _, way := range b.ways() {
			if b.api == "embeddings" || b.api == "raw" { // one generates nothing, the other sends bodies of completions
				continue
			}
			t.Run(strings.Join(append([]string{b.api}, way...), " "), func(t *testing.T) {
				t.Parallel()
				template := []string{"--template-tokens", chatTokens(t)}
				m := startMock(t, template...)
				rec := startRecorder(t, m.url)
				args := append(b.args(t, load, rec.url, way), "--concurrency", "1")
				was := run(t, args...)
				was.sound(t)
				day := rec.stop(t)
				probes := day.Len() - len(was.lines) // before the run, which the server then forgets
				if probes < 0 {
					t.Fatalf("%d rows of %d: %s", day.Len(), len(was.lines), day.Heads[0])
				}
				cache := kvcache.NewInfinite(16, 16)
				hits := 0
				for n, l := range was.lines {
					i := n + probes
					tokens := int(day.InputTokens[i])
					must.Equal(t, tokens, int(l.Input), "row %d: prompt", i)
					must.Equal(t, int64(day.OutputTokens[i]), l.Output, "row %d: answer", i)
					ideal := cache.Expected(day.Blocks(i), tokens, 0, tokens)
					hits += ideal
					if l.Expected != absent {
						must.Equal(t, int64(ideal), l.Expected, "row %d: tokens that an ideal cache holds", i)
					}
					if b.cached && l.Cached > 0 {
						must.Equal(t, int64(day.Cached[i]), l.Cached, "row %d: tokens that the server held", i)
					}
				}
				if hits < 1000 {
					t.Errorf("only %d tokens are shared: the test shows nothing", hits)
				}
				other := startMock(t, template...)
				again := run(t, append(b.args(t, rec.file, other.url, way), "--concurrency", "1", "--from", fmt.Sprint(day.ArrivalNS[probes], "ns"))...)
				must.Equal(t, len(again.lines), len(was.lines), "rows replayed")
				again.sound(t)
				for i, l := range again.lines {
					must.Equal(t, l.Prompt, was.lines[i].Prompt, "row %d, replayed: prompt", i)
					must.Equal(t, l.Cached, was.lines[i].Cached, "row %d, replayed: tokens that the server held", i)
				}
			})
		}
	}
}
