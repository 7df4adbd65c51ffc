package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestShell: how a command ends, and what it has said, at most so much and in whole lines. Nothing of it is left.
func TestShell(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for text, want := range map[string]struct {
		code   int
		output string
	}{
		"echo a; echo b >&2; exit 7": {7, "a\nb\n"},
		"true":                       {0, ""},
		"seq 1 20000 | sed 's/^/credential /'; echo end": {0, ""},
	} {
		code, output, err := Shell(t.Context(), UsualNice, text)
		must.Do(t, err)
		expect.Equal(t, code, want.code, text)
		if want.output != "" || text == "true" {
			expect.Equal(t, output, want.output, text)
			continue
		}
		expect.Equal(t, len(output) <= mostOutput && len(output) > mostOutput/2, true, "%d bytes", len(output))
		expect.Equal(t, strings.HasPrefix(output, "credential ") && strings.HasSuffix(output, "\nend\n"), true, "%.40q", output)
	}
	expect.Equal(t, len(must.Have(os.ReadDir(dir))(t)), 0, "files left")
	t.Setenv("TMPDIR", filepath.Join(dir, "nowhere"))
	code, output, err := Shell(t.Context(), UsualNice, "echo a; exit 3")
	expect.Equal(t, err == nil && code == 3 && output == "", true, "without a place for its output: %d %q %v", code, output, err)
}

// TestShellKills: what has not ended with its time is killed with its children.
func TestShellKills(t *testing.T) {
	late := filepath.Join(t.TempDir(), "late")
	begun := filepath.Join(t.TempDir(), "begun")
	ctx, end := context.WithCancel(t.Context())
	go func() {
		defer end()
		for _, err := os.Stat(begun); errors.Is(err, os.ErrNotExist) && ctx.Err() == nil; _, err = os.Stat(begun) {
			time.Sleep(time.Millisecond)
		}
	}()
	_, output, err := Shell(ctx, UsualNice, "sh -c 'echo said; touch "+begun+"; sleep 300; touch "+late+"'; touch "+late)
	expect.Equal(t, err != nil && ctx.Err() != nil && output == "said\n", true, "%q %v", output, err)
	_, err = os.Stat(late)
	expect.Equal(t, errors.Is(err, os.ErrNotExist), true, "it went on")
}

// TestShellLeavesServers: what a command leaves in the background may write, and has the priority that was asked for.
func TestShellLeavesServers(t *testing.T) {
	niceness := map[int]int{}
	for _, nice := range []int{UsualNice, BesideNice} {
		dir := t.TempDir()
		path := filepath.Join(dir, "nice")
		_, _, err := Shell(t.Context(), nice, "cd "+dir+"; (until [ -e go ]; do sleep 0.01; done; echo written && nice > part; mv part nice) &")
		must.Do(t, err)
		must.Do(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
		var text []byte
		for text == nil {
			time.Sleep(time.Millisecond)
			text, _ = os.ReadFile(path)
		}
		niceness[nice] = must.Have(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	}
	expect.Equal(t, niceness[BesideNice], min(19, niceness[UsualNice]+BesideNice), "priority")
}
