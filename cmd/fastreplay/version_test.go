package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestBuild: the linker's values win; else a checkout says its commit, and a module its version.
func TestBuild(t *testing.T) {
	set := func(pairs ...string) (out []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return out
	}
	const hash = "f49f9d948cac7c014784590325f01edbdf15e034"
	for _, tt := range []struct {
		name, module string
		settings     []debug.BuildSetting
		linked, want source
	}{
		{"nothing known", "", nil, source{}, source{version: "dev"}},
		{"go run", "(devel)", nil, source{}, source{version: "dev"}},
		{"go install @latest", "v1.2.3", nil, source{}, source{version: "v1.2.3"}},
		{"go build in a checkout", "v1.2.4-0.20261122-f49f9d948cac", set("vcs.revision", hash, "vcs.time", "2026-11-22T21:58:00Z", "vcs.modified", "false"), source{},
			source{"v1.2.4-0.20261122-f49f9d948cac", "f49f9d948cac", "2026-11-22T21:58:00Z"}},
		{"with changes", "(devel)", set("vcs.revision", hash, "vcs.modified", "true"), source{}, source{"dev", "f49f9d948cac+dirty", ""}},
		{"a short hash", "(devel)", set("vcs.revision", "abc"), source{}, source{"dev", "abc", ""}},
		{"a release", "v0.0.1", set("vcs.revision", hash, "vcs.modified", "true"), source{"v1.0.0", "abcdef", "2026-11-23"}, source{"v1.0.0", "abcdef", "2026-11-23"}},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: tt.module}, Settings: tt.settings}
		expect.Equal(t, tt.linked.completed(info), tt.want, tt.name)
	}
}

// TestVersionIsOneLine: the command and the flag print the same.
func TestVersionIsOneLine(t *testing.T) {
	var said []string
	for _, arg := range []string{"version", "--version"} {
		code, out, _ := ran(t, arg)
		expect.Equal(t, code, exitOK, "%s: exit code", arg)
		said = append(said, out)
	}
	if said[0] != said[1] || !strings.HasPrefix(said[0], "fastreplay ") || strings.Count(said[0], "\n") != 1 {
		t.Errorf("got %q", said)
	}
}
