package setup

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestStrangeTargets: what is put in place of a file of targets during a run is refused, and is neither waited for, nor
// read without end, nor cut in the middle of a name.
func TestStrangeTargets(t *testing.T) {
	const line = "http://gpu1:8000 2\n"
	for _, c := range []struct {
		what string
		make func(name string) error
		want string
	}{
		{"a file", func(name string) error { return os.WriteFile(name, []byte(line), 0o600) }, ""},
		{"a pipe", func(name string) error { return syscall.Mkfifo(name, 0o600) }, "is a pipe"},
		{"a directory", func(name string) error { return os.Mkdir(name, 0o700) }, "a directory"},
		{"no end", func(name string) error { return os.Symlink("/dev/zero", name) }, "a device"},
		{"nothing", func(string) error { return nil }, "no such file"},
		{"a large file", func(name string) error {
			return os.WriteFile(name, []byte(strings.Repeat(line, mostTargets/len(line)+1)), 0o600)
		}, "has more than 1048576 bytes"},
	} {
		name := filepath.Join(t.TempDir(), "targets.txt")
		must.Do(t, c.make(name))
		urls, weights, err := ReadTargets(t.Context(), name, true)
		if c.want == "" {
			must.Do(t, err)
			expect.Equal(t, urls[0], "http://gpu1:8000", "URL")
			expect.Equal(t, weights[0], 2, "weight")
			continue
		}
		expect.Error(t, err, c.want, c.what)
		expect.Error(t, err, name, c.what)
	}
}
