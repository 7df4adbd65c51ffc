package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/cmd/fastreplay/manual"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// TestAdviceWorks: what refusals say to do (testdata/refused.txt) does what they say.
func TestAdviceWorks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"own.csv": "when,prompt_len,out\n0,100,10\n7300,50,5\n", "said.jsonl": `{"prompt":"a","ts":1}`, "untimed.jsonl": `{"prompt":"a"}`, "bodies.jsonl": `{"payload":{"prompt":"a","stream":true}}`} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600))
	}
	large := strings.Repeat(`{"timestamp":0,"input_length":1000000,"output_length":5}`+"\n", 60)
	must.Do(t, os.WriteFile(filepath.Join(dir, "large.jsonl"), []byte(large), 0o600))
	turns := ""
	for i := range 60 {
		turns += fmt.Sprintf(`{"chat_id":%d,"parent_chat_id":%d,"timestamp":%d,"input_length":1000000,"output_length":5,"type":"text","turn":%d,"hash_ids":[1]}`+"\n",
			i, i%2*i-1, i, 1+i%2)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "turns.jsonl"), []byte(turns), 0o600))
	row := `{"timestamp":%d,"input_length":100,"output_length":5,"hash_ids":[1]}` + "\n"
	must.Do(t, os.Mkdir(filepath.Join(dir, "two"), 0o700))
	for i, name := range []string{"a.jsonl", "b.jsonl"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "two", name), fmt.Appendf(nil, row, i), 0o600))
	}
	const long = "this takes 2.03 h or longer; --from and --to replay a part, --idle-cap shortens idle times, --duration ends it sooner"
	named := "own.csv --format burstgpt --fields timestamp=when,input_length=prompt_len,output_length=out"
	for line, want := range map[string]string{
		named:                           long,
		named + " --idle-cap system=1s": "!this takes",
		named + " --from 1s":            "!this takes",
		named + " --duration 3h":        "!this takes",
		named + " --rate 0.0001":        "this takes 2.78 h or longer; --limit replays less, --duration ends it sooner",
		"said.jsonl --fields text_input=prompt,timestamp=ts":                            "1 request",
		"untimed.jsonl --fields text_input=prompt --rate 2":                             "1 request",
		"turns.jsonl --block-tokens 1000000 --limit 1 --no-stream --require e2e.p50<5s": "1 request",
		"bodies.jsonl --rate 2 --no-stream --require ttft.p50<5s":                       "1 request",
		"large.jsonl --concurrency 4 --duration 15s":                                    "requests are built during the run",
		"large.jsonl --concurrency 4":                                                   "!note: all 60 requests are built",

		"turns.jsonl --concurrency 4 --duration 15s --sessions gated --block-tokens 1000000": "note: all 60 requests are built",
		"two": "note: trace: 2 files found in the directory: a.jsonl, b.jsonl",
	} {
		code, said := runLine(t, dir+"/"+line+" --dry-run --no-probe")
		want, unwanted := strings.CutPrefix(want, "!")
		if code != exitOK || strings.Contains(said, want) == unwanted {
			t.Errorf("%s: exit code %d, %q in\n%s", line, code, want, said)
		}
	}
}

// TestHelpInAPipe: a page that goes to no terminal is laid out, too.
func TestHelpInAPipe(t *testing.T) {
	code, page, _ := ran(t, "help", "timing")
	expect.Equal(t, code, exitOK, "exit code")
	expect.Equal(t, page, manual.LayOut(manual.Page("timing"), 80, false))
	list := helpList(newRootCommand())
	for _, topic := range manual.Topics() {
		expect.Contains(t, list, topic, "missing")
	}
}

// TestQuietCommands: report -q and compare -q print what is asked for, and no more.
func TestQuietCommands(t *testing.T) {
	dir := killedRun(t)
	said := func(args ...string) string {
		_, out, errs := ran(t, args...)
		return out + errs
	}
	if text := said("report", dir, "-q"); strings.Contains(text, "TTFT") || !strings.Contains(text, dir) || !strings.Contains(text, "INVALID") || strings.Count(text, "\n") > 10 {
		t.Errorf("report:\n%s", text)
	}
	expect.Equal(t, said("compare", dir, killedRun(t), "-q"), "", "compare -q says")
	if text := said("compare", dir, killedRun(t), "-q", "--fail-if", "ttft.p99:+5%"); strings.Count(text, "\n") != 1 || !strings.Contains(text, "--fail-if cannot be judged") {
		t.Errorf("compare with a gate:\n%s", text)
	}
}

// TestComplete: the shell completes the values of flags, and the files that a flag or a command takes.
func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"--api=": "completions\nchat\n", "--route": "round-robin\n", "inspect --format": "\nmooncake\n", "--sessions": "strict\ngated\nthink\nlanes=\n:4\n",
		"--cold": "auto\nflush\nsalt\noff\n:4\n", "profile --prompt": "token-ids\ntext\n:4\n", "--history": "recorded\nlive\n:4\n",
		"report --export": "aiperf\n", "gen --arrival": "gamma:\n", "--resend": "never\nunread\nsafe\n:4\n", "--tokenizer": "cl100k_base\no200k_base\n:0\n",
		"--trace": "jsonl\njson\ncsv\ngz\nzst\n:8\n", "-f": "yaml\nyml\njson\n:8\n", "inspect": "jsonl\njson\ncsv\ngz\nzst\n:8\n", "report": ":16\n",
		"--output": ":16\n", "help": "\ntiming\n", "": "convert\tWrite a trace in another format\n",
	} {
		args := append(append([]string{"__complete"}, strings.Fields(line)...), "")
		if last := len(args) - 2; strings.HasSuffix(args[last], "=") {
			args = args[:last+1]
		}
		code, out, _ := ran(t, args...)
		expect.Equal(t, code, exitOK, "%q: exit code", line)
		expect.Contains(t, out, want, "%q", line)
	}
}

// killedRun is the directory of a run that was killed: three requests, of 36 tokens each.
func killedRun(t *testing.T) string {
	dir, lines := t.TempDir(), ""
	for i := range 3 {
		at := i * 1e9
		lines += fmt.Sprintf(`{"row":%d,"request_id":"r-%[1]d","target":"http://a","planned_ns":%d,"sent_ns":%[2]d,"first_token_ns":%d,"last_token_ns":%[3]d,"done_ns":%[3]d,`+
			`"completion_tokens":36,"tokens_from":"usage","outcome":"ok"}`+"\n", i, at, at+5e8)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, report.RequestsName), []byte(lines), 0o644))
	return dir
}

// TestReportJudgesAPart: objectives judge a part of a run, and its records are not taken for edited ones.
func TestReportJudgesAPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	url, _, _ := startMockCommand(t, strings.NewReader(""))
	const sample = "../../bench/samples/mooncake-small.jsonl"
	// a busy machine may make them INVALID
	if code, said := runLine(t, sample+" --limit 20 --concurrency 2 --url "+url+" --output "+dir); code == exitUsage {
		t.Fatal(said)
	}
	for _, part := range []string{"--from=100ms", "--to=100ms"} {
		if code, said := runLine(t, "report "+dir+" "+part+" --require error_rate<1%"); code == exitUsage {
			t.Errorf("%s: %s", part, said)
		}
	}
}

// TestReportOfAPart: the flags reach the summary: of a killed run's three requests, of 36 tokens each, the later two.
func TestReportOfAPart(t *testing.T) {
	dir := killedRun(t)
	line := "report " + dir + " --from 500ms --json --price-per-hour 3.6 --require output_tokens_per_s>50"
	code, out, said := ran(t, strings.Fields(line)...)
	var s metrics.Summary
	must.Do(t, json.Unmarshal([]byte(out), &s), said)
	must.Equal(t, code, exitInvalid, "exit code of a killed run: %s", said)
	// The first answer ends where the part begins, and counts there.
	if w := s.Window; w == nil || *w != (metrics.Window{FromS: 0.5, ToS: 2.5, RunS: 2.5}) || s.Requests.OK != 2 || s.Throughput.OutputTokensPerS != 54 || !s.Verdict.Objectives[0].Met {
		t.Errorf("window %+v, requests %+v, throughput %+v, objectives %+v", w, s.Requests, s.Throughput, s.Verdict.Objectives)
	}
	if c := s.Cost; c == nil || math.Abs(c.Total-0.002) > 1e-12 || math.Abs(*c.PerMOutput-1000/54.0) > 1e-9 {
		t.Errorf("cost %+v", c)
	}
}
