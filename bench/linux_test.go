//go:build linux

package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// asRoot skips what only root may arrange.
func asRoot(t *testing.T, tools ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can arrange this")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
}

// command runs a tool that must succeed; where it may not, on a machine that forbids it, the test is skipped.
func command(t *testing.T, line ...string) {
	t.Helper()
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		t.Skipf("%v: %v: %s", line, err, out)
	}
}

// TestDiskFull: it is said at once, the run goes on, and at the end the terminal has what the disk has not.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	asRoot(t)
	for _, flags := range [][]string{nil, {"--compress"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			t.Parallel()
			small := t.TempDir()
			if err := syscall.Mount("fastreplay", small, "tmpfs", 0, "size=32k"); err != nil {
				t.Skipf("no tmpfs: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
			m := startMock(t)
			args := append(flags, "--trace", steady(t, 600, 500, 3), "--url", m.url)
			r := startReplayTo(t, nil, filepath.Join(small, "results"), args...)
			r.ends(t, 1, "no space left on device", "records wait in memory", "600 ok", "could not be written")
			lines := readLines[line](t, requestsFile(r.dir)) // whole lines, whole frames
			if len(lines) >= 600 || len(lines) == 0 && flags == nil {
				t.Errorf("%d lines on a disk of 32 kB", len(lines))
			}
			if log := m.stop(t); len(log) < 600 {
				t.Errorf("only %d requests were sent", len(log))
			}
		})
	}
}

// link is two network namespaces joined by a pair of virtual interfaces with the MTU of Ethernet.
type link struct {
	client, server []string // prefixes of a command line
	address        string   // of the server
}

func newWire(t *testing.T) link {
	t.Helper()
	asRoot(t, "ip")
	id := strconv.Itoa(os.Getpid())
	client, server := "frc"+id, "frs"+id
	run := func(line string) { t.Helper(); command(t, append([]string{"ip"}, strings.Fields(line)...)...) }
	for _, name := range []string{client, server} {
		run("netns add " + name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	}
	// Both ends are made inside their namespaces, so that the machine's own network never sees them.
	run("-n " + client + " link add wire0 mtu 1500 type veth peer name wire1 mtu 1500 netns " + server)
	for _, end := range [][3]string{{client, "wire0", "10.213.7.1/30"}, {server, "wire1", "10.213.7.2/30"}} {
		run("-n " + end[0] + " addr add " + end[2] + " dev " + end[1])
		run("-n " + end[0] + " link set " + end[1] + " up")
		run("-n " + end[0] + " link set lo up")
	}
	enter := func(name string) []string { return []string{"ip", "netns", "exec", name} }
	return link{enter(client), enter(server), "10.213.7.2"}
}

// TestEthernet sends 750 kB prompts, ten times what a fresh connection takes at MTU 1500. With a send buffer of the
// request's size the kernel takes each at once. Over TLS and with a buffer that may not grow, the rest follows without
// the sender.
func TestEthernet(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, c := range []struct {
		name       string
		rows       int
		tokens     func(t *testing.T) int      // of each prompt, 6 bytes each
		prefix     func(t *testing.T) []string // before the binary
		mock, args []string
		partial    bool // some writes must be
	}{
		{name: "sized buffers", rows: 24, tokens: usual},
		{name: "TLS", rows: 24, tokens: usual, mock: []string{"--tls-self-signed"}, args: []string{"--insecure"}},
		{
			name: "TLS, buffers that may not grow", rows: 4, tokens: largerThanAnyBuffer, prefix: withoutNetAdmin, partial: true,
			mock: []string{"--tls-self-signed"}, args: []string{"--insecure"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := w.client
			if c.prefix != nil {
				client = with(client, c.prefix(t)...)
			}
			tokens := c.tokens(t)
			load := generate(t, "--rows", fmt.Sprint(c.rows), "--rate", "20", "--arrival", "constant", "--burst", "3", "--burst-every", "6",
				"--input-tokens", fmt.Sprint(tokens), "--output-tokens", "4")
			m := startMockIn(t, w.server, filepath.Join(t.TempDir(), "mock.jsonl"), append(c.mock, "--listen", w.address+":0")...)
			r := startReplayIn(t, client, append(c.args, "--trace", load, "--url", m.url)...).finish(t)
			r.sound(t, m)
			partial := int64(0)
			for _, l := range r.lines {
				whole := l.WrittenFirstBytes == l.BytesSent
				if !whole {
					partial++
				}
				if l.BytesSent < 6*int64(tokens) || l.WrittenFirstBytes < 1460 || l.Written < l.Sent || !whole && l.Written == l.Sent {
					t.Errorf("row %d: first %d of %d bytes, sent %d, written %d", l.Row, l.WrittenFirstBytes, l.BytesSent, l.Sent, l.Written)
				}
			}
			t.Logf("%+v; first write of row 0: %d of %d bytes", r.summary.Writes, r.lines[0].WrittenFirstBytes, r.lines[0].BytesSent)
			// A kernel that hears acknowledgements while it copies may take even more than its buffer holds.
			if partial != r.summary.Writes.Partial || c.partial && partial == 0 {
				t.Errorf("%d lines were written in parts, the summary counts %+v", partial, r.summary.Writes)
			}
		})
	}
}

// withoutNetAdmin is a prefix that takes away the right to exceed net.core.wmem_max.
func withoutNetAdmin(t *testing.T) []string {
	t.Helper()
	asRoot(t, "setpriv")
	prefix := []string{"setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", "--"}
	command(t, with(prefix, "true")...)
	return prefix
}

// usual is 750 kB.
func usual(*testing.T) int { return 125_000 }

// largerThanAnyBuffer is a prompt's tokens that exceed a send buffer of net.core.wmem_max, which the kernel doubles.
func largerThanAnyBuffer(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/core/wmem_max")
	most, errN := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || errN != nil || most > 16<<20 {
		t.Skipf("net.core.wmem_max is %q: no prompt is larger", text)
	}
	return max(usual(t), 3*most/6)
}

// TestFewDescriptors: the limit is raised where the process may, and named where it may not.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("needs prlimit")
	}
	m := startMock(t, "--ttft", "300ms")
	r := startReplayIn(t, []string{"prlimit", "--nofile=128:128"}, "--trace", steady(t, 400, 1000, 2), "--url", m.url)
	res := r.finish(t)
	res.prove(t)
	res.join(t, m.stop(t))
	res.only(t, "ok", "connect_error")
	if res.outcomes()["connect_error"] == 0 {
		return // raised
	}
	for _, l := range res.lines {
		if !l.ok() && !strings.Contains(l.Error, "ulimit -n") {
			t.Errorf("row %d: %s", l.Row, l.Error)
		}
	}
	expect.Contains(t, res.stderr, "ulimit -n", "the run does not say what to raise")
}

// TestSenderDies: a sending process that is killed is named on the terminal and in the summary. All records are on
// disk, and the run is invalid, not interrupted.
func TestSenderDies(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--itl", "20ms")
	r := startReplay(t, "--trace", steady(t, lasting, 100, 10), "--url", m.url, "--sender", "process")
	m.untilRunning(t, 8)
	pid := childOf(t, r.Process.Pid)
	must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
	res := r.finish(t)
	res.prove(t)
	res.only(t, "ok", "not_sent")
	by, want := res.outcomes(), fmt.Sprintf("the sending process (pid %d) died during the run (signal: killed", pid)
	if res.code != 1 || len(res.lines) != lasting || by["ok"] == 0 || by["not_sent"] == 0 {
		t.Errorf("exit %d, %d lines, %v; want 1, 6,000 and some of each", res.code, len(res.lines), by)
	}
	if !strings.Contains(res.reasons()[0], want) || !strings.HasPrefix(res.reasons()[0], fmt.Sprintf("%d of 6,000 requests were sent: ", by["ok"])) {
		t.Errorf("the verdict is %q, want %q", res.reasons(), want)
	}
	for _, l := range res.lines {
		if l.Outcome == "not_sent" && !strings.HasPrefix(l.Error, "the sending process (pid ") {
			t.Fatalf("row %d: %s", l.Row, l.Error)
		}
	}
	if strings.Count(unwrapped(res.stderr), want) < 2 || strings.Contains(res.stderr, "interrupted") {
		t.Errorf("the terminal says:\n%s", res.stderr)
	}
}

// childOf is the only child of a process.
func childOf(t *testing.T, pid int) (child int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must.Do(t, err)
	var found []string
	for _, file := range tasks {
		text, _ := os.ReadFile(file) // a thread may have ended
		found = append(found, strings.Fields(string(text))...)
	}
	if len(found) != 1 {
		t.Skipf("the children of %d are %v", pid, found)
	}
	child, err = strconv.Atoi(found[0])
	must.Do(t, err)
	return child
}
