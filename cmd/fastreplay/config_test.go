package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
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

// TestConfig: what a file of flags sets beside a command line, which wins under whatever name, as testdata/config.txt has
// it. What is refused is so in one line with its place, and no value that may be secret.
func TestConfig(t *testing.T) {
	text := string(must.Have(os.ReadFile("testdata/config.txt"))(t))
	for _, block := range strings.Split(text, "\n== ")[1:] {
		given, want, _ := strings.Cut(block, "\n=> ")
		line, file, _ := strings.Cut(given+"\n", "\n")
		path := configFile(t, file)
		replaced := strings.NewReplacer("FILE", path)
		want = replaced.Replace(strings.TrimSpace(want))
		_, l, err := typed(strings.Fields(replaced.Replace(line))...)
		if why, refused := strings.CutPrefix(want, "refused: "); refused {
			expect.Error(t, err, why, "%s, with %q", line, file)
			expect.Lacks(t, fmt.Sprint(err), "\n")
			expect.Lacks(t, fmt.Sprint(err), "s3cr3t")
			continue
		}
		must.Do(t, err, "%s, with %q", line, file)
		got := strings.Replace(settings(l.Flags), "--config "+path, "", 1)
		got = cmp.Or(strings.Join(strings.Fields(got), " "), "nothing")
		if len(l.FromFile) > 0 {
			got += "; by the file: " + strings.Join(l.FromFile, " ")
		}
		expect.Equal(t, got, want, "%s, with %q", line, file)
	}
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
