// Package model runs the code of engine and wire on a scheduler and a kernel of its own. One process runs at a time,
// and at each atomic operation, lock and system call a seed decides which one goes on. So a schedule can be repeated,
// and time passes only if it is told to.
//
// The code is the real one. Copies of its files, in which the packages sync, sync/atomic and syscall and some names of
// others are this package's, are compiled in their place (see rewrite_test.go). Engine's world_test.go says which
// processes there are and what must hold.
package model

import (
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
)

// World is one schedule of processes. Its functions are called by the process that runs.
type World struct {
	Choose func(n int) int                  // decides which of n processes goes on; 0 is the one that runs, if it can
	Stays  func() bool                      // reports whether the one that runs goes on without a look at the others
	Sleeps func() int                       // for how many choices the first candidate is left alone
	Jumps  func() bool                      // reports whether time passes although somebody could go on
	Quiet  func() error                     // is called when nobody can go on before time has passed
	Dial   func() (fd int, err error)       // makes a connection
	Bug    int                              // the number of the bug that is planted; below 0 = none
	Trace  func(format string, args ...any) // nil = nobody reads it

	processes  []*process
	candidates []*process
	running    *process
	resumed    *process // by Run
	next       *process
	changes    int // of what a process may wait for
	steps      int
	choices    int
	nowNS      int64
	idleJumps  int
	kernel     kernel
}

const (
	mostSteps     = 100_000
	mostIdleJumps = 200
	idleJump      = int64(25e6)
	mostJumped    = int64(20e6) // until then time may pass although somebody could go on
	forever       = math.MaxInt64
)

// process is a coroutine.
type process struct {
	name   string
	space  int // whose descriptors it has
	daemon bool
	*coroutine
	ready    func() bool // nil = it can go on
	atNS     int64       // when it can go on at any rate
	what     string      // it waits for
	sleepsTo int         // the choice until which others go first
	seen     int         // the changes at its last call of Gosched
}

// current is the world that runs. There is one at a time in the process of the operating system.
var current *World

// failure ends a schedule, killed a process.
type (
	failure struct{ error }
	killed  struct{}
)

// Fail ends the schedule with an error.
func Fail(format string, args ...any) {
	if current != nil {
		current.running = nil // so that nothing runs on the way out
	}
	panic(failure{fmt.Errorf(format, args...)})
}

// Run runs a schedule: main, and all that it starts. It returns what went wrong, if every process but daemons has
// ended, or cannot end.
func (w *World) Run(main func()) (err error) {
	current = w
	w.kernel.init()
	var failed *process // its coroutine has ended by a panic
	defer func() {
		failed = w.resumed
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			stack := make([]byte, 4<<10)
			err = fmt.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
		w.running = nil
		for _, p := range w.processes {
			if p != failed {
				p.end()
			}
		}
		current = nil
	}()
	Go("main", main)
	w.next = w.processes[0]
	for w.next != nil {
		p := w.next
		w.running = p
		w.resumed = p
		p.resume()
		w.resumed = nil
		if p.body == nil {
			w.remove(p)
			parked = append(parked, p.coroutine)
			w.changes++
			w.running = nil
			w.next = w.pick(nil)
		}
	}
	return nil
}

func (w *World) remove(p *process) {
	for i, q := range w.processes {
		if q == p {
			w.processes = append(w.processes[:i], w.processes[i+1:]...)
			return
		}
	}
}

// Go starts a process beside those that run.
func Go(name string, f func()) { start(name, f) }

// Spawn is the go statement.
func Spawn(f func()) { start(nameOf(f), f) }

// nameOf returns the name of a function, or of that in which it stands.
func nameOf(f func()) string {
	if !Tracing() {
		return "" // nobody reads it
	}
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	name = strings.TrimSuffix(strings.TrimSuffix(name[strings.LastIndex(name, "/")+1:], "-fm"), ".func1")
	return name[strings.LastIndex(name, ".")+1:]
}

// GoDaemon starts a process that may wait when all others have ended.
func GoDaemon(name string, f func()) { start(name, f).daemon = true }

// GoSpace starts a process with descriptors of its own.
func GoSpace(space int, name string, f func()) {
	p := start(name, f)
	p.space = space
}

func start(name string, f func()) *process {
	w := current
	p := &process{name: name}
	if w.running != nil {
		p.space = w.running.space
	}
	if n := len(parked); n > 0 {
		p.coroutine, parked = parked[n-1], parked[:n-1]
	} else {
		p.coroutine = newCoroutine()
	}
	p.coroutine.body = f
	w.processes = append(w.processes, p)
	w.changes++
	return p
}

// coroutine runs one function after the other: its stack has grown already.
type coroutine struct {
	body   func() // nil = it has ended
	resume func() (struct{}, bool)
	yield  func(struct{}) bool
	killed bool // it is to end where it is
}

// parked are coroutines without a body.
var parked []*coroutine

func newCoroutine() *coroutine {
	c := new(coroutine)
	c.resume, _ = iter.Pull(func(yield func(struct{}) bool) {
		for c.yield = yield; ; yield(struct{}{}) {
			c.run()
		}
	})
	return c
}

// run runs the body. Panics but that of a process that is killed go to the scheduler.
func (c *coroutine) run() {
	defer func() {
		c.body = nil
		r := recover()
		if r != nil && r != (killed{}) && !c.killed {
			panic(r)
		}
	}()
	c.body()
}

// pause gives the turn back to the scheduler.
func (c *coroutine) pause() {
	if c.yield(struct{}{}); c.killed {
		panic(killed{})
	}
}

// end ends the body where it is.
func (c *coroutine) end() {
	if c.yield != nil && c.body != nil {
		c.killed = true
		for c.body != nil {
			c.resume()
		}
		c.killed = false
	}
	parked = append(parked, c)
}

// Kill ends the processes of a space where they are.
func Kill(space int) {
	w := current
	me := w.running
	w.Note("the processes of space %d die", space)
	w.running = nil // so that nothing runs on the way out of them
	for i := 0; i < len(w.processes); {
		if p := w.processes[i]; p.space == space {
			w.processes = append(w.processes[:i], w.processes[i+1:]...)
			p.end()
		} else {
			i++
		}
	}
	w.running = me
	w.kernel.die(space)
	w.changes++
}

// Exit ends the process that runs.
func Exit(int) { panic(killed{}) }

// Point is where the scheduler may let another process go on.
func Point() {
	w := current
	if w == nil || w.running == nil {
		return
	}
	w.point()
}

func (w *World) point() {
	p := w.running
	if w.steps++; w.steps > mostSteps {
		Fail("%d steps, and no end: %s", w.steps, w.list())
	}
	if !w.Stays() {
		w.give(p)
	}
	if w.Trace != nil {
		w.Trace("%s", w.where(p))
	}
}

// give lets the process go on that is picked.
func (w *World) give(p *process) {
	if w.next = w.pick(p); w.next != p {
		p.pause()
	}
	w.running = p
}

// pick returns who goes on; nil = only daemons are left, and wait.
func (w *World) pick(p *process) *process {
	for {
		w.candidates = w.candidates[:0]
		if p != nil && w.canRun(p) {
			w.candidates = append(w.candidates, p)
		}
		for _, q := range w.processes {
			if q != p && w.canRun(q) {
				w.candidates = append(w.candidates, q)
			}
		}
		switch n := len(w.candidates); {
		case n == 0:
			if w.onlyDaemons() {
				return nil
			}
			w.idle()
		case w.Jumps() && w.jump(false):
		case n == 1:
			return w.candidates[0]
		default:
			return w.candidates[w.choose(n)]
		}
	}
}

// choose lets the seed decide between candidates. It may leave one alone for a while, in which much happens to what
// that one has seen.
func (w *World) choose(n int) int {
	w.choices++
	k := w.Choose(n)
	for range n {
		if w.choices >= w.candidates[k].sleepsTo {
			break
		}
		k = (k + 1) % n
	}
	if w.Sleeps != nil {
		w.candidates[0].sleepsTo = w.choices + w.Sleeps()
	}
	return k
}

func (w *World) canRun(p *process) bool { return p.ready == nil || w.nowNS >= p.atNS || p.ready() }

func (w *World) onlyDaemons() bool {
	for _, p := range w.processes {
		if !p.daemon {
			return false
		}
	}
	return true
}

// idle lets time pass, since nobody can go on.
func (w *World) idle() {
	if err := w.Quiet(); err != nil {
		panic(failure{err})
	}
	if w.idleJumps++; w.idleJumps > mostIdleJumps {
		Fail("nobody goes on, however long one waits: %s", w.list())
	}
	w.jump(true)
}

// jump moves time to the earliest instant that a process waits for; if there is none, by idleJump if force is set.
func (w *World) jump(force bool) bool {
	at := int64(forever)
	for _, p := range w.processes {
		if p.ready != nil && p.atNS > w.nowNS {
			at = min(at, p.atNS)
		}
	}
	switch {
	case !force && at > mostJumped:
		return false
	case at < forever:
		w.nowNS = at
	default:
		w.nowNS += idleJump
	}
	w.changes++
	w.Note("it is %g ms", float64(w.nowNS)/1e6)
	return true
}

func (w *World) list() string {
	var b strings.Builder
	for _, p := range w.processes {
		what := p.what
		if p.ready == nil {
			what = "nothing"
		}
		fmt.Fprintf(&b, "\n  %s waits for %s", p.name, what)
	}
	return b.String()
}

// Until waits until a condition holds.
func Until(what string, cond func() bool) { UntilTime(what, forever, cond) }

// UntilTime waits until a condition holds, or an instant has come.
func UntilTime(what string, atNS int64, cond func() bool) {
	w := current
	if w == nil || w.running == nil {
		if !cond() {
			panic(killed{}) // on its way out
		}
		return
	}
	p := w.running
	for !cond() && w.nowNS < atNS {
		p.ready, p.atNS, p.what = cond, atNS, what
		w.give(p)
		p.ready = nil
	}
}

// Gosched waits until something has changed since its last call: so a loop goes round again, but not in vain.
func Gosched() {
	Point()
	p := current.running
	Until("others", func() bool { return current.changes != p.seen })
	p.seen = current.changes
}

// Tick waits until time has passed.
func Tick(cond func() bool) {
	seen := current.nowNS
	Until("time", func() bool { return current.nowNS != seen || cond() })
}

// Changed notes that something has changed for which a process may wait.
func Changed() {
	if current != nil {
		current.changes++
	}
}

// Changes counts them.
func Changes() int { return current.changes }

// NowNS is the time.
func NowNS() int64 { return current.nowNS }

// Note writes into the trace what is no line of the code.
func (w *World) Note(format string, args ...any) {
	if w != nil && w.Trace != nil {
		w.Trace("%-46s "+format, append([]any{""}, args...)...)
	}
}

// Note writes into the trace of the world that runs.
func Note(format string, args ...any) { current.Note(format, args...) }

// Tracing reports whether somebody reads it.
func Tracing() bool { return current != nil && current.Trace != nil }

// where says what a process is about to do: its line outside this package.
func (w *World) where(p *process) string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.File, "internal/model/") {
			return fmt.Sprintf("%-20s %-25s %s", p.name, fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line), sourceLine(f.File, f.Line))
		}
		if !more {
			return p.name
		}
	}
}

// Dial makes a connection.
func Dial() (fd int, err error) { return current.Dial() }

// Planted reports whether the code has a bug.
func Planted(bug int) bool { return current != nil && current.Bug == bug }

// Absent is a number that no state has, if the bug is planted; else 0.
func Absent(bug int) uint32 {
	if Planted(bug) {
		return 1000
	}
	return 0
}

// sources are the files whose lines a trace shows.
var sources = map[string][]string{}

// sourceLine returns a line of a file of engine, below the working directory, or of wire.
func sourceLine(file string, line int) string {
	_, name, _ := strings.Cut(file, "/engine/")
	lines, ok := sources[name]
	if !ok {
		text, _ := os.ReadFile(name) // without it the trace has only numbers
		lines = strings.Split(string(text), "\n")
		sources[name] = lines
	}
	if line > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[line-1])
}

// Every goes through all schedules in which a process other than the first in turn goes on at most Turns times.
type Every struct {
	Turns int
	path  []turn
	at    int
}

// turn is a choice: the k-th of n processes.
type turn struct{ k, n int }

// Choose is World.Choose.
func (e *Every) Choose(n int) int {
	if e.at == len(e.path) {
		e.path = append(e.path, turn{0, n})
	}
	k := e.path[e.at].k
	e.at++
	return k
}

// Next moves on to the next schedule; false: that was the last one.
func (e *Every) Next() bool {
	e.path, e.at = e.path[:e.at], 0
	for len(e.path) > 0 {
		last := &e.path[len(e.path)-1]
		if last.k+1 < last.n && e.turns() < e.Turns {
			last.k++
			return true
		}
		e.path = e.path[:len(e.path)-1]
	}
	return false
}

// turns counts those before the last choice.
func (e *Every) turns() (n int) {
	for _, t := range e.path[:len(e.path)-1] {
		if t.k > 0 {
			n++
		}
	}
	return n
}
