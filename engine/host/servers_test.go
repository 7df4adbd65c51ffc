package host

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/stats"
)

const tableHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// socketLine is a line of the kernel's table of sockets.
func socketLine(local, state string, inode int) string {
	return fmt.Sprintf("   0: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 000000002077077b 100 0 0 10 0\n", local, state, inode)
}

func TestSocketsAt(t *testing.T) {
	t.Parallel()
	const any4, loop4, other4 = "00000000:1F40", "0100007F:1F40", "0200007F:1F40"
	const any6, loop6, mapped = "00000000000000000000000000000000:1F40", "00000000000000000000000001000000:1F40", "0000000000000000FFFF00000100007F:1F40"
	for _, tt := range []struct {
		name, table, at string
		want            []string
	}{
		{"its own", socketLine(loop4, "0A", 7), "127.0.0.1:8000", []string{"7"}},
		{"its own before all", socketLine(any4, "0A", 6) + socketLine(any6, "0A", 5) + socketLine(loop4, "0A", 7), "127.0.0.1:8000", []string{"7"}},
		{"all of IPv4 before IPv6", socketLine(any6, "0A", 5) + socketLine(any4, "0A", 6), "127.0.0.1:8000", []string{"6"}},
		{"all of both", socketLine(any6, "0A", 5), "127.0.0.1:8000", []string{"5"}},
		{"IPv4 written as IPv6", socketLine(mapped, "0A", 4), "127.0.0.1:8000", []string{"4"}},
		{"IPv6", socketLine(loop6, "0A", 3) + socketLine(any4, "0A", 6), "[::1]:8000", []string{"3"}},
		{"IPv4 does not accept IPv6", socketLine(any4, "0A", 6), "[::1]:8000", nil},
		{"workers that share a port", socketLine(any4, "0A", 6) + socketLine(any4, "0A", 8), "127.0.0.1:8000", []string{"6", "8"}},
		{"another port", socketLine("0100007F:1F41", "0A", 7), "127.0.0.1:8000", nil},
		{"another address", socketLine(other4, "0A", 7), "127.0.0.1:8000", nil},
		{"connected, not listening", socketLine(loop4, "01", 7), "127.0.0.1:8000", nil},
		{"nonsense", "\n0: x\n" + socketLine("xyz:1F40", "0A", 1) + socketLine("01:1F40", "0A", 1) + socketLine("0100007F:FFFFF", "0A", 1) + socketLine("0100007F", "0A", 1), "127.0.0.1:8000", nil},
	} {
		expect.List(t, socketsAt(tableHead+tt.table, netip.MustParseAddrPort(tt.at)), tt.want, tt.name)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 12 4 4 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 100"
	for text, want := range map[string]process{
		"7 (vllm)" + rest:           {parent: 12, name: "vllm", started: "98765"},
		"7 (a) R 1 (b))" + rest:     {parent: 12, name: "a) R 1 (b)", started: "98765"},
		"7 (\x1b[2J\nx)" + rest:     {parent: 12, name: `\x1b[2J\nx`, started: "98765"},
		"":                          {},
		"7 )(" + rest:               {},
		"7 (cut off) S 12 4":        {},
		"7 (x) S parent" + rest[5:]: {},
	} {
		if got, ok := parseStat(text); ok != (want.name != "") || ok && got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, ok, want)
		}
	}
}

// forged is a /proc of a test.
type forged struct {
	t    *testing.T
	root string
}

func (f forged) write(name, text string) {
	f.t.Helper()
	name = filepath.Join(f.root, name)
	must.Do(f.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(f.t, os.WriteFile(name, []byte(text), 0o644))
}

// process adds a process with one thread, that has waited so long; inode 0 = it listens nowhere.
func (f forged) process(pid, parent int, name string, inode int, waitedNS int64) {
	f.t.Helper()
	at := strconv.Itoa(pid)
	f.write(at+"/stat", fmt.Sprintf("%d (%s) S %d 4 4 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 100", pid, name, parent))
	f.waited(pid, waitedNS)
	if inode > 0 {
		f.write(at+"/fd/0", "no link")
		must.Do(f.t, os.Symlink(fmt.Sprintf("socket:[%d]", inode), filepath.Join(f.root, at, "fd", "3")))
	}
}

func (f forged) waited(pid int, ns int64) {
	f.write(fmt.Sprintf("%d/task/%d/schedstat", pid, pid), fmt.Sprintf("1000 %d 2\n", ns))
}

// TestServersOfThisMachine: worlds of processes. The client is 50, its parent 40.
func TestServersOfThisMachine(t *testing.T) {
	t.Parallel()
	const client = 50
	for _, tt := range []struct {
		name   string
		before func(f forged) // besides init, a shell and the client
		during func(f forged)
		want   stats.LocalServers
	}{
		{"one with an engine", func(f forged) {
			f.process(70, 1, "vllm", 7, 1e9)
			f.process(71, 70, "VLLM::EngineCor", 0, 5e9)
			f.process(80, 1, "busy", 0, 0)
		}, func(f forged) {
			f.waited(70, 2e9)
			f.waited(71, 5.5e9)
			f.waited(80, 90e9)
			f.waited(client, 90e9)
			f.process(72, 71, "worker", 0, 0.25e9)
		}, stats.LocalServers{Processes: "pid 70, vllm", WaitedS: new(1.75), Unknown: "127.0.0.2:8000"}},
		{"nobody", func(f forged) { f.process(80, 1, "busy", 99, 0) }, func(f forged) {}, stats.LocalServers{Unknown: "127.0.0.1:8000; 127.0.0.2:8000"}},
		{"two", func(f forged) {
			f.process(70, 1, "vllm", 7, 0)
			f.process(75, 1, "sglang", 8, 0)
		}, func(f forged) {
			f.waited(70, 1e9)
			f.waited(75, 2e9)
		}, stats.LocalServers{Processes: "pid 70, vllm; pid 75, sglang", WaitedS: new(3.0)}},
		{"two, one of which dies", func(f forged) {
			f.process(70, 1, "vllm", 7, 0)
			f.process(75, 1, "sglang", 8, 0)
		}, func(f forged) {
			f.waited(75, 2e9)
			_ = os.RemoveAll(filepath.Join(f.root, "70"))
		}, stats.LocalServers{Processes: "pid 75, sglang", WaitedS: new(2.0), Unknown: "pid 70, vllm, ended during the run"}},
		{"one that dies, and its number lives on", func(f forged) { f.process(70, 1, "vllm", 7, 0) }, func(f forged) {
			f.write("70/stat", "70 (other) S 1 4 4 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99999 100")
			f.waited(70, 9e9)
		}, stats.LocalServers{Unknown: "127.0.0.2:8000; pid 70, vllm, ended during the run"}},
		{"workers that share the socket", func(f forged) {
			f.process(70, 1, "gunicorn", 7, 0)
			f.process(71, 70, "gunicorn", 7, 0)
			f.process(72, 70, "gunicorn", 7, 0)
		}, func(f forged) {
			f.waited(71, 1e9)
			f.waited(72, 1e9)
		}, stats.LocalServers{Processes: "pid 70, gunicorn", WaitedS: new(2.0), Unknown: "127.0.0.2:8000"}},
		{"init holds the socket", func(f forged) {
			_ = os.RemoveAll(filepath.Join(f.root, "1"))
			f.process(1, 0, "systemd", 7, 0)
			f.process(70, 1, "vllm", 7, 0)
			f.process(80, 1, "busy", 0, 0)
		}, func(f forged) {
			f.waited(70, 1e9)
			f.waited(80, 9e9)
		}, stats.LocalServers{Processes: "pid 1, systemd; pid 70, vllm", WaitedS: new(1.0), Unknown: "127.0.0.2:8000"}},
		{"a server that the client is in", func(f forged) {
			_ = os.RemoveAll(filepath.Join(f.root, "50"))
			f.process(client, 40, "fastreplay", 7, 0)
			f.process(51, client, "sender", 0, 0)
		}, func(f forged) {
			f.waited(client, 1e9)
			f.waited(51, 9e9)
		}, stats.LocalServers{Processes: "pid 50, fastreplay", WaitedS: new(1.0), Unknown: "127.0.0.2:8000"}},
		{"parents in a circle", func(f forged) {
			f.process(70, 1, "vllm", 7, 0)
			f.process(90, 91, "a", 0, 0)
			f.process(91, 90, "b", 0, 0)
		}, func(f forged) { f.waited(91, 9e9) }, stats.LocalServers{Processes: "pid 70, vllm", WaitedS: new(0.0), Unknown: "127.0.0.2:8000"}},
		{"a kernel that does not count", func(f forged) {
			f.process(70, 1, "vllm", 7, 0)
			f.process(75, 1, "vllm", 8, 0)
			_ = os.RemoveAll(filepath.Join(f.root, "70/task"))
			_ = os.RemoveAll(filepath.Join(f.root, "75/task"))
		}, func(forged) {}, stats.LocalServers{Processes: "pid 70, vllm; pid 75, vllm"}},
	} {
		f := forged{t, t.TempDir()}
		f.write("net/tcp", tableHead+socketLine("0100007F:1F40", "0A", 7)+socketLine("0200007F:1F40", "0A", 8))
		f.process(1, 0, "init", 0, 0)
		f.process(40, 1, "sh", 0, 0)
		f.process(client, 40, "fastreplay", 0, 0)
		tt.before(f)
		s := findServers(f.root, client, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8000"), netip.MustParseAddrPort("127.0.0.2:8000")})
		s.Begin()
		tt.during(f)
		got := s.Shared()
		if got.Processes != tt.want.Processes || got.Unknown != tt.want.Unknown || (got.WaitedS == nil) != (tt.want.WaitedS == nil) || got.WaitedS != nil && *got.WaitedS != *tt.want.WaitedS {
			t.Errorf("%s: got %q, %v s, unknown %q; want %q, %v s, %q", tt.name, got.Processes, seconds(got.WaitedS), got.Unknown, tt.want.Processes, seconds(tt.want.WaitedS), tt.want.Unknown)
		}
	}
}

func seconds(s *float64) string {
	if s == nil {
		return "unknown"
	}
	return fmt.Sprint(*s)
}

// TestNoServersOfThisMachine: elsewhere, or without /proc.
func TestNoServersOfThisMachine(t *testing.T) {
	t.Parallel()
	s := FindServers(nil)
	s.Begin()
	if got := s.Shared(); s != nil || got != nil {
		t.Errorf("no address: %v, %v", s, got)
	}
	s = findServers(t.TempDir(), 1, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8000")})
	s.Begin()
	if got := s.Shared(); got.Processes != "" || got.WaitedS != nil || got.Unknown != "127.0.0.1:8000" {
		t.Errorf("no /proc: %+v", got)
	}
}
