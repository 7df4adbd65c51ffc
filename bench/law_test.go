// Package bench_test holds what the repository demands of itself: the law of imports and a top level of few entries.
package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

const module = "github.com/fastreplay/fastreplay"

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath   string
	Imports      []string // direct
	Deps         []string // direct and indirect
	TestImports  []string
	XTestImports []string
}

// TestLawOfImports: codec (bytes) < sched (time) < engine (sockets) < cmd (people); a package imports only to its left.
func TestLawOfImports(t *testing.T) {
	t.Parallel()
	root := moduleRoot(t)
	for _, system := range []string{"linux", "darwin"} {
		packages := listPackages(t, root, system)
		if len(packages) < 10 {
			t.Fatalf("go list for %s found %d packages; the law would hold of anything", system, len(packages))
		}
		for _, breach := range breaches(packages) {
			t.Errorf("%s: %s", system, breach)
		}
	}
}

// TestTopLevel: a new entry at the top level is a decision, not an accident. So is a file above 1 MB, which may be a
// built program.
func TestTopLevel(t *testing.T) {
	t.Parallel()
	want := []string{
		".ci", ".github", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SKILL.md", "action.yml",
		"bench", "cmd", "codec", "engine", "go.mod", "go.sum", "sched", "scripts",
	}
	root := moduleRoot(t)
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("what is tracked is unknown: git ls-files: %v: %s", err, said.Bytes())
	}
	var got []string
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		entry, _, _ := strings.Cut(file, "/")
		got = append(got, entry)
		if info, err := os.Stat(filepath.Join(root, file)); err == nil && info.Size() > 1e6 {
			t.Errorf("%s is tracked and has %d bytes", file, info.Size())
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("tracked at the top level:\ngot  %q\nwant %q", got, want)
	}
}

// breaches lists every import that breaks the law.
func breaches(packages []goPackage) []string {
	var out []string
	for _, p := range packages {
		from := relative(p.ImportPath)
		add := func(to, why string) { out = append(out, fmt.Sprintf("%s imports %s: %s", from, to, why)) }
		for _, dep := range p.Deps {
			if to, ours := strings.CutPrefix(dep, module+"/"); ours {
				if why := forbidden(from, to); why != "" {
					add(to, why)
				}
			}
		}
		for _, dep := range p.Imports {
			if why := socket(from, dep); why != "" {
				add(dep, why)
			}
		}
		for _, dep := range slices.Concat(p.TestImports, p.XTestImports) {
			to, ours := strings.CutPrefix(dep, module+"/")
			for _, alone := range []string{mock, worlds} {
				if ours && under(from, alone) && !under(to, alone) && !slices.Contains(helpers, to) {
					add(to, "tests of "+alone+" know it alone")
				}
			}
		}
	}
	return out
}

const mock = "bench/mockllm"

// worlds is the package that simulates what the methods of engine judge. Tests of every package may import it.
const worlds = "bench/worlds"

// helpers are packages that tests of every package may import.
var helpers = []string{"bench/must", "bench/expect"}

// jsonReader is the one package of codec that others there import.
const jsonReader = "codec/json"

// doors are the packages of engine that use engine: replay uses setup.
var doors = []string{"engine/setup", "engine/replay"}

// forbidden says why the package from may not depend on the package to, both relative to the module; "" = it may.
func forbidden(from, to string) string {
	fromLayer, fromRest, _ := strings.Cut(from, "/")
	toLayer, toRest, _ := strings.Cut(to, "/")
	order := []string{"codec", "sched", "engine", "cmd"}
	fromRank, toRank := slices.Index(order, fromLayer), slices.Index(order, toLayer)
	switch {
	case under(from, mock) && under(to, mock):
		return ""
	case under(from, mock):
		return "the mock shares no code with the client, so that no mistake cancels itself out"
	case under(from, worlds):
		return "the worlds share no code with the methods that they judge"
	case toLayer == "bench" && fromLayer != "bench" && (fromLayer != "cmd" || !under(to, mock)):
		return "benchmarks and proofs are imported by tests alone, the mock by cmd too"
	case under(to, mock) && fromLayer != "cmd":
		return "only cmd and tests import the mock"
	case toLayer == "bench" || fromLayer == "bench":
		return ""
	case fromRank < 0 || toRank < 0:
		return "one of them lies outside codec, sched, engine, cmd and bench"
	case fromRank < toRank:
		return fmt.Sprintf("%s stands left of %s", fromLayer, toLayer)
	case to == jsonReader && fromLayer == "codec":
		return ""
	case fromLayer == "codec" && first(fromRest) != first(toRest):
		return "packages inside codec do not import each other"
	case fromLayer == "sched" && toLayer != "sched":
		return "sched knows time, not what is sent"
	case from == "engine/metrics" && to == "engine/verdict" || to == "engine/collect" && (from == "engine/metrics" || from == "engine/verdict"):
		return "what a summary is stands left of what judges it, and that left of what counts records"
	case from == "engine/stats":
		return "stats knows numbers, not what they mean"
	case slices.Contains(doors, to) && fromLayer == "engine" && from != "engine/replay":
		return "setup and replay stand right of all else in engine"
	case to == "engine" && fromLayer == "engine" && !slices.Contains(doors, from):
		return "engine imports its subpackages, not the other way round"
	case fromLayer == "cmd" && toLayer == "cmd" && first(fromRest) != first(toRest):
		return "commands do not import each other"
	}
	return ""
}

// socket returns why the package from may not import dep, which opens sockets or makes system calls. "" = it may, or
// dep does neither.
func socket(from, dep string) string {
	sockets := dep == "net" || dep == "crypto/tls" || under(dep, "net/http") || under(dep, "net/rpc") || under(dep, "github.com/valyala/fasthttp")
	system := dep == "syscall" || under(dep, "golang.org/x/sys")
	switch layer, rest, _ := strings.Cut(from, "/"); {
	case dep == "text/template" || dep == "html/template":
		return "the linker keeps every exported method of a program that uses a template, 2.7 MB here"
	case layer == "codec" && (sockets || system):
		return "codec knows bytes, not sockets"
	case layer == "sched" && sockets:
		return "sched knows time, not sockets"
	case layer != "engine" || rest == "":
		return ""
	case sockets && rest != "wire" && rest != "probe" && rest != "shard" && rest != "recorder":
		return "of engine, only engine itself, wire, probe, shard and recorder open sockets"
	case system && rest != "wire" && rest != "host":
		return "of engine, only engine itself, wire and host make system calls"
	}
	return ""
}

func under(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }

func first(path string) string {
	element, _, _ := strings.Cut(path, "/")
	return element
}

func relative(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func listPackages(t *testing.T, root, system string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	must.Do(t, err, "go list for %s: %s", system, said.Bytes())
	var packages []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatalf("go list for %s: %v", system, err)
		}
		packages = append(packages, p)
	}
}

// moduleRoot is the directory of go.mod. It visits every directory below. So `go test` sees what the commands here
// read, and does not use its cache if that has changed.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	must.Do(t, err)
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		return err
	})
	must.Do(t, err)
	_, _ = os.Stat(filepath.Join(root, ".git", "index")) // what is tracked
	return root
}

// TestRules: the law knows right from wrong, of pairs of who imports and what.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule    func(from, to string) string
		allowed bool
		pairs   string
	}{
		{forbidden, true, `codec/trace/internal codec/trace, codec/trace codec/json, codec/trace/rows codec/json,
codec/api codec/json, codec/record codec/json, engine codec/sse, engine/report engine/metrics, engine/setup engine,
engine/setup engine/probe, engine/replay engine/setup, engine/replay engine,
engine/metrics engine/stats, engine/collect engine/verdict, cmd/fastreplay engine, cmd/fastreplay bench/mockllm,
bench/samples codec/trace, bench/samples bench/worlds, bench/mockllm bench/mockllm/fault, bench/mockllm/fault bench/mockllm,
cmd/fastreplay bench/mockllm/fault`},
		{forbidden, false, `codec/trace codec/prompt, codec/record codec/sse, codec/json codec/api, codec/trace sched,
codec/trace bench/mockllm, sched codec/trace, engine cmd/fastreplay, engine/report engine,
engine/setup engine/replay, engine engine/setup, engine/capacity engine/replay,
engine/setup cmd/fastreplay, engine/stats engine/metrics, engine/verdict engine/collect, engine/metrics engine/verdict, cmd/fastreplay bench/samples,
cmd/fastreplay cmd/other, bench/samples bench/mockllm, bench/mockllm codec/trace,
bench/mockllm bench/samples, bench/mockllm/fault codec/trace, bench/samples bench/mockllm/fault,
tools codec/trace, engine tools`},
		{socket, true, `codec/http1 net/url, sched golang.org/x/sys/unix, engine net, engine/metrics net/url,
engine/wire syscall, engine/probe net, engine/host golang.org/x/sys/unix, bench/mockllm net`},
		{socket, false, `codec/http1 net, codec/http1 net/http/httputil, codec/trace syscall, sched net, engine/metrics net,
engine/report golang.org/x/sys/unix, engine/wire/sub net, engine/setup net, engine/setup crypto/tls,
engine/replay syscall, engine/probe golang.org/x/sys/unix,
engine/route github.com/valyala/fasthttp/fasthttpproxy, cmd/fastreplay text/template`},
	} {
		for pair := range strings.SplitSeq(c.pairs, ",") {
			from, to, _ := strings.Cut(strings.TrimSpace(pair), " ")
			if why := c.rule(from, to); (why == "") != c.allowed {
				t.Errorf("%s imports %s: got %q, want allowed %v", from, to, why, c.allowed)
			}
		}
	}
}

// TestBreaches: indirect dependencies count, a socket below another package does not, and the mock's tests are held
// too.
func TestBreaches(t *testing.T) {
	ours := func(path string) string { return module + "/" + path }
	got := breaches([]goPackage{
		{ImportPath: ours("codec/trace"), Imports: []string{"os"}, Deps: []string{"os", "syscall", ours("codec/prompt")}},
		{ImportPath: ours("engine/metrics"), Imports: []string{"net", "github.com/HdrHistogram/hdrhistogram-go"}},
		{ImportPath: ours("engine"), Imports: []string{"net"}, Deps: []string{"net", ours("sched")}, TestImports: []string{ours(mock), ours(worlds)}},
		{ImportPath: ours(mock), XTestImports: []string{ours(mock), ours("codec/sse")}},
	})
	want := []string{
		"codec/trace imports codec/prompt: packages inside codec do not import each other",
		"engine/metrics imports net: of engine, only engine itself, wire, probe, shard and recorder open sockets",
		"bench/mockllm imports codec/sse: tests of bench/mockllm know it alone",
	}
	expect.List(t, got, want)
}
