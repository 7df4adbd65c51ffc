package model

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/fastreplay/fastreplay"

// replaced are the names of other packages for which this one has its own, by import path; "" stands for all names.
var replaced = map[string][]string{
	"sync":                         {"Mutex", "RWMutex", "WaitGroup"},
	"sync/atomic":                  {""},
	"runtime":                      {"Gosched"},
	"time":                         {"AfterFunc", "Now"},
	"os":                           {"Exit"},
	"net":                          {"UnixConn"},
	"syscall":                      {"RawSyscall", "RawSyscall6", "Syscall6"},
	"golang.org/x/sys/unix":        {"Close", "EpollCreate1", "EpollCtl", "Eventfd", "GetsockoptTCPInfo", "IoctlGetInt", "Read", "Shutdown", "Syscall", "Write"},
	"github.com/panjf2000/ants/v2": {"NewPool", "Pool", "WithPanicHandler"},
	module + "/sched":              {"Monotonic", "NewLoneWaiter", "NewMonotonic", "NewWaiter", "Place", "PlaceReader", "Waiter"},
}

// otherNames are those that are called otherwise here.
var otherNames = map[string]string{"RawSyscall": "Syscall", "RawSyscall6": "Syscall6", "UnixConn": "Link", "NewLoneWaiter": "NewWaiter"}

// keeps uses an import of which nothing may be left.
var keeps = map[string]string{
	"sync": "Locker", "sync/atomic": "Bool", "runtime": "Error", "time": "Duration", "os": "Signal", "net": "Addr", "syscall": "Errno",
	"golang.org/x/sys/unix": "Errno", "github.com/panjf2000/ants/v2": "Pool", module + "/sched": "Plan",
}

// patch replaces a text that occurs once in a file.
type patch struct{ file, text, by string }

// patches are what the table cannot say, by file: where a connection comes from, and what would take time and decides
// nothing.
var patches = []patch{
	{"engine/wire/socket.go", "func connect(", "func connectOutside("},
	{"engine/engine.go", "r.readLag.lag = stats.NewHistogram()", "r.readLag.lag = new(stats.Distribution)"},
	{"engine/pacer_queue.go", "stats.NewHistogram()", "new(stats.Distribution)"},
	{"engine/conn.go", "const readBuffer = 16 << 10", "const readBuffer = 200"},
	{"engine/pause_linux.go", "r.ring != nil", "true"},
	{"engine/pause_linux.go", "if segments == 0 {", "if false {"},
	{"engine/epoll_linux.go", "l.pause.note(n, len(c.parts), ", "l.pause.note(n, 1, "},
	{"engine/nagle.go", "s.count <= quickAcks", "n.trials.Load() > 1"},
	{"engine/dialer.go", "dialSpare = 4", "dialSpare = 1"},
	{"engine/sender_process.go", "how := l.exitReason()", "how := \"the sending process died\""},
}

// outside are files that do not run in a world, or are of it.
var outside = []string{"engine/world_test.go", "engine/buildahead.go", "engine/wire/ring_linux.go"}

// connectInside is wire's way to a connection of this kernel.
const connectInside = `package wire

import (
	"context"
	"net/netip"

	"` + module + `/engine/internal/model"
)

func connect(context.Context, netip.AddrPort, DialOptions) (tcpConn, error) {
	fd, err := model.Dial()
	return &epollConn{fd: fd, in: newWaiter(), out: newWaiter()}, err
}
`

// bugs are put into the code on purpose, each by a condition that is false unless its number is planted.
var bugs = []struct {
	name    string
	patches []patch
}{
	{"a lost wake-up: a reader waits without having said so", []patch{
		{"engine/wire/epoll_linux.go", "	g.waiting.Store(true) // before", "	g.waiting.Store(!model.Planted(0)) // before"},
		{"engine/wire/epoll_linux.go", "		<-g.ready\n", "		g.waiting.Store(true); <-g.ready\n"},
	}},
	{"a slot freed twice: a part of a write is settled by each who sees it", []patch{
		{"engine/sender_process.go", "	case slotPart:\n		s.state.Store(slotSettled)\n", "	case slotPart:\n		if !model.Planted(1) { s.state.Store(slotSettled) }\n"},
	}},
	{"bytes to a reused descriptor: it is not held while it is written", []patch{
		{"engine/wire/epoll_linux.go", "	return try(uintptr(w.fd)), nil\n", "	if model.Planted(2) { w.mu.RUnlock(); defer w.mu.RLock() }; return try(uintptr(w.fd)), nil\n"},
	}},
	{"a response after a reset: the reader goes on, and finds the end of the stream", []patch{
		{"engine/conn.go", "	c.readErr = err\n	if why", "	if model.Planted(3) && errors.Is(err, syscall.ECONNRESET) { return false }; c.readErr = err\n	if why"},
	}},
	{"a death of the sender in mid-write: the request counts as not sent", []patch{
		{"engine/sender_process.go", "	case slotSending: // the sender died", "	case slotSending + model.Absent(4): // the sender died"},
	}},
	{"a pause while a writer waits for room", []patch{
		{"engine/pause_linux.go", "r.flushing.Load() == 0", "(model.Planted(5) || r.flushing.Load() == 0)"},
	}},
	{"a pause although an answer releases requests", []patch{
		{"engine/pause_linux.go", "r.work.Plan.ByClock()", "(model.Planted(6) || r.work.Plan.ByClock())"},
	}},
	{"bytes that were left unread, and nobody looks again", []patch{
		{"engine/epoll_linux.go", "	if l.trial.left {\n		limit", "	if l.trial.left && !model.Planted(7) {\n		limit"},
	}},
}

// build compiles engine's world_test.go with the rewritten code, in a directory, and returns the program.
func build(dir string) (program string, err error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return "", err
	}
	overlay := map[string]string{}
	add := func(file string, text []byte) error {
		at := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		overlay[filepath.Join(root, file)] = at
		return os.WriteFile(at, text, 0o600)
	}
	all := slices.Clone(patches)
	for _, b := range bugs {
		all = append(all, b.patches...)
	}
	for _, folder := range []string{"engine", "engine/wire"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			name := path.Join(folder, filepath.Base(file))
			switch {
			case slices.Contains(outside, name):
				continue
			case strings.HasSuffix(name, "_test.go"):
				overlay[file] = ""
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			if text, err = rewrite(name, string(text), all); err != nil {
				return "", err
			}
			if err := add(name, append([]byte("//line "+file+":1\n"), text...)); err != nil {
				return "", err
			}
		}
	}
	for _, name := range []string{"kernel", "step", "sync"} {
		at := filepath.Join(root, "engine/internal/model", name)
		overlay[at+"_linux.go"] = at + "_linux_test.go"
	}
	if err := add("engine/wire/connect_inside.go", []byte(connectInside)); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "world.test")
	c := exec.Command("go", "test", "-c", "-tags", "model", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./engine")
	c.Dir = root
	if said, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", c, err, said)
	}
	return program, nil
}

// edit replaces the bytes from begin to end.
type edit struct {
	begin, end int
	by         string
}

// rewrite returns the text of a file with this package's names in place of others'. Each line stays where it is.
func rewrite(name, text string, patches []patch) ([]byte, error) {
	for _, p := range patches {
		if p.file != name {
			continue
		}
		if strings.Count(text, p.text) != 1 {
			return nil, fmt.Errorf("%s has %d times the text to be replaced: %q", name, strings.Count(text, p.text), p.text)
		}
		text = strings.Replace(text, p.text, p.by, 1)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	paths, kept := map[string]string{}, "\nvar _ = model.Point\n"
	for _, i := range file.Imports {
		importPath, _ := strconv.Unquote(i.Path.Value)
		local := strings.TrimSuffix(importPath, "/v2")
		local = local[strings.LastIndex(local, "/")+1:]
		if i.Name != nil {
			local = i.Name.Name
		}
		paths[local] = importPath
		if keep := keeps[importPath]; keep != "" && local != "_" {
			kept += fmt.Sprintf("\nvar _ *%s.%s\n", local, keep)
		}
	}
	edits := []edit{{at(file.Name.End()), at(file.Name.End()), fmt.Sprintf("; import %q", module+"/engine/internal/model")}}
	inSelect := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommClause:
			ast.Inspect(n.Comm, func(n ast.Node) bool { inSelect[n] = true; return n != nil })
		case *ast.AssignStmt: // who asks whether a channel is closed is outside
			if len(n.Lhs) > len(n.Rhs) {
				inSelect[n.Rhs[0]] = true
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || x.Obj != nil {
				break
			}
			if names := replaced[paths[x.Name]]; slices.Contains(names, n.Sel.Name) || slices.Contains(names, "") {
				to := n.Sel.Name
				if other := otherNames[to]; other != "" {
					to = other
				}
				edits = append(edits, edit{at(n.Pos()), at(n.End()), "model." + to})
			}
		case *ast.GoStmt:
			edits = append(edits, edit{at(n.Pos()), at(n.Call.Pos()), "model.Spawn(func() { "}, edit{at(n.End()), at(n.End()), " })"})
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && !inSelect[n] {
				edits = append(edits, edit{at(n.Pos()), at(n.X.Pos()), "model.Receive("}, edit{at(n.End()), at(n.End()), ")"})
			}
		}
		return true
	})
	slices.SortStableFunc(edits, func(a, b edit) int { return a.begin - b.begin })
	var out strings.Builder
	last := 0
	for _, e := range edits {
		out.WriteString(text[last:e.begin])
		out.WriteString(e.by)
		last = e.end
	}
	out.WriteString(text[last:])
	out.WriteString(kept)
	return []byte(out.String()), nil
}
