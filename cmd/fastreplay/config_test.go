package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// configFile writes a file for --config.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestConfig: what a file sets, and that the command line wins, under whatever name.
func TestConfig(t *testing.T) {
	for _, c := range []struct {
		file, line, want string
		set              []string
	}{
		{"", "x", "", nil},
		{"# nothing\n", "x", "", nil},
		{"rate: 10\nseed: 7\nno-stream: true\ntimeout: 30s\n", "x", "--rate 10 --seed 7 --no-stream true --timeout 30s", []string{"no-stream", "rate", "seed", "timeout"}},
		{"trace: [a, b]\nurl: h:1\n", "", "--trace a,b --url h:1", []string{"trace", "url"}},
		{"trace: [a, b]\n", "x", "", nil},
		{"trace: a\n", "--trace b", "--trace b", nil},
		{"trace: a\n", "--input-file b", "--trace b", nil},
		{"input-file: a\n", "--trace b", "--trace b", nil},
		{"input-file: a\n", "", "--trace a", []string{"trace"}},
		{"rate: 10\n", "x --rate 20", "--rate 20", nil},
		{"rate: 10\n", "x --request-rate 20", "--rate 20 --arrival poisson", nil},
		{"request-rate: 10\n", "x --rate 20", "--rate 20", nil},
		{"request-rate: 10\n", "x", "--rate 10 --arrival poisson", []string{"rate"}},
		{"request-rate: 10\narrival: constant\n", "x", "--rate 10 --arrival constant", []string{"arrival", "rate"}},
		{"no-stream: true\n", "x --streaming", "--no-stream false", nil},
		{"streaming: true\n", "x --no-stream", "--no-stream true", nil},
		{"streaming: true\nno-stream: false\n", "x", "--no-stream false", []string{"no-stream"}},
		{"url: h:1\n", "x --host g", "--url g:8000", nil},
		{"host: h\nport: 9\n", "x", "--url h:9", []string{"url"}},
		{"host: h\n", "x --url g:1", "--url g:1", nil},
		{"extra-inputs: [\"a:1\", '{\"b\":2}']\nheader: 'X: y'\n", "x", "--extra-inputs a:1,{\"b\":2} --header X: y", []string{"extra-inputs", "header"}},
		{"header: ['A: b', 'C: d']\n", "x -H E:f", "--header E:f", nil},
		{"temperature: 0\nextra-inputs: [\"a:1\"]\n", "x", "--extra-inputs a:1,temperature:0", []string{"extra-inputs"}},
		{"cold: off\nrealtime: off\n", "x", "--cold off --realtime off", []string{"cold", "realtime"}},
		{"scale: &s 2\nmax-error-rate: 0.5\nwarmup: *s\nurl: h:1\n", "x", "--scale 2 --max-error-rate 0.5 --url h:1 --warmup 2", []string{"max-error-rate", "scale", "url", "warmup"}},
		{"tokenizer: Qwen/Qwen3-8B\nworkers-max: 4\n", "x", "", []string{"tokenizer"}},
		{"{rate: 10, seed: 7}", "x", "--rate 10 --seed 7", []string{"rate", "seed"}},
	} {
		_, l, err := typed(append([]string{"--config", configFile(t, c.file)}, strings.Fields(c.line)...)...)
		config := l.Flags.Lookup("config").Value.String()
		all := strings.Split(" "+strings.TrimSpace(c.want+" --config "+config), " --")[1:]
		slices.Sort(all)
		want := "--" + strings.Join(all, " --")
		if got := settings(l.Flags); err != nil || got != want || !slices.Equal(l.FromFile, c.set) {
			t.Errorf("%q, then %q: %v, set %q\ngot  %s\nwant %s, set %q", c.file, c.line, err, l.FromFile, got, want, c.set)
		}
	}
}

// TestMalformedConfigs: each is refused in one line with its place, and no value that may be secret.
func TestMalformedConfigs(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"seed: 1\nratee: 10\n", `:2: unknown key "ratee"; did you mean rate?`},
		{"seed: 1\nrequest_rate: 10\n", `:2: unknown key "request_rate"; did you mean request-rate?`},
		{"Rate: 10\n", `:1: unknown key "Rate"; did you mean rate?`},
		{"config: other.yaml\n", `:1: unknown key "config"`},
		{"help: true\n", `:1: unknown key "help"`},
		{"? [a, b]\n: 1\n", ":1: unknown key"},
		{"rate: 10\nseed: 1\nrate: 20\n", ":3: rate stands there twice; give it once, several values as a list"},
		{"seed: 1\n\nmax-drift: 30\n", `:3: max-drift: want a time with its unit, such as 60s or 5ms`},
		{"warmup: many\n", ":1: warmup: want a whole number"},
		{"no-stream: yes\n", ":1: no-stream: want true or false"},
		{"request-count: many\n", `:1: --request-count "many": want a whole number`},
		{"custom-dataset-type: random_pool\n", `:1: --custom-dataset-type "random_pool": there is no such thing here`},
		{"seed: 1\npublic-dataset: sharegpt\n", ":2: --public-dataset: nothing is downloaded here"},
		{"rate: 10\nrequest-rate: 20\n", ":2: --rate and --request-rate are two names of one flag and differ"},
		{"request-rate: 20\nrate: 10\n", ":1: --rate and --request-rate are two names of one flag and differ"},
		{"rate: [10, 20]\n", ":1: rate takes one value, not a list"},
		{"rate:\n", ":1: rate has no value; give one, or true or false for a switch"},
		{"rate: {of: 10}\n", ":1: rate: want a value, or a list of values"},
		{"header: [[a]]\n", ":1: header: want a value, or a list of values"},
		{"header: ['s3cr3t', ~]\n", ":1: header has no value"},
		{"- rate\n", ":1: want lines such as `rate: 10`, the names of flags without their dashes"},
		{"rate\n", ":1: want lines such as `rate: 10`"},
		{"api-key: s3cr3t\nrate: 10\n bad: s3cr3t\n", ": yaml: line 3: "},
		{"rate: 'ten\n", ": yaml: line "},
		{"rate: 10\n---\nrate: 20\n", ": a second YAML document; want one"},
		{"rate: *x\n", ": yaml: unknown anchor 'x' referenced"},
	} {
		path := configFile(t, c.file)
		_, _, err := typed("--config", path, "x")
		expect.Error(t, err, path, "%q", c.file)
		expect.Error(t, err, c.want, "%q", c.file)
		expect.Lacks(t, fmt.Sprint(err), "\n")
		expect.Lacks(t, fmt.Sprint(err), "s3cr3t")
	}
	_, _, err := typed("--config", "/no/such.yaml", "x")
	expect.Error(t, err, "--config: open /no/such.yaml", "a file that is not there")
}

// FuzzConfig: whatever a file holds, it is read or refused in one line.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"", "rate: 10\n", "header: ['A: b']\nurl: [h:1]\n", "a: &x [*x]\n", "? [a]\n: b\n", "<<: {rate: 1}\n", "--- \n...\n", "rate: !!binary aGk=\n"} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "fuzz.yaml")
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if _, _, err := typed("--config", path, "x"); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	})
}
