package host

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/must"
)

// busyServer makes this test program a server that competes with itself for one core.
const busyServer = "FASTREPLAY_BUSY_SERVER"

// TestBusyServer is no test: TestServerWaits starts it. It ends when its standard input does.
func TestBusyServer(t *testing.T) {
	if os.Getenv(busyServer) == "" {
		t.Skip("started by TestServerWaits")
	}
	l := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	var allowed, one unix.CPUSet
	must.Do(t, unix.SchedGetaffinity(0, &allowed))
	for cpu := 0; one.Count() == 0; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	for range 2 {
		go func() {
			runtime.LockOSThread()
			_ = unix.SchedSetaffinity(0, &one)
			for {
				runtime.Gosched()
			}
		}()
	}
	fmt.Println("at", l.Addr())
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// waitedBy sums what the kernel says that a process's threads have waited, in s.
func waitedBy(t *testing.T, pid int) float64 {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	total := int64(0)
	for _, file := range files {
		var ran, waited, slices int64
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(text), &ran, &waited, &slices); err != nil {
			t.Skipf("%s: %q: %v", file, text, err)
		}
		total += waited
	}
	return float64(total) / 1e9
}

// TestServerWaits: of a real server under contention, the wait lies between those that the kernel tells just within and
// just around it.
func TestServerWaits(t *testing.T) {
	server := exec.Command(os.Args[0], "-test.run=^TestBusyServer$")
	server.Env = append(os.Environ(), busyServer+"=1", "GOMAXPROCS=3")
	stdin := must.Have(server.StdinPipe())(t)
	stdout := must.Have(server.StdoutPipe())(t)
	must.Do(t, server.Start())
	defer func() {
		_ = stdin.Close()
		_ = server.Wait()
	}()
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	at, err := netip.ParseAddrPort(strings.TrimSpace(strings.TrimPrefix(line, "at ")))
	must.Do(t, err, line)
	pid := server.Process.Pid
	s := FindServers([]netip.AddrPort{at})
	outer := waitedBy(t, pid)
	s.Begin()
	inner := waitedBy(t, pid)
	for waitedBy(t, pid) < inner+0.005 { // two threads on one core wait for each other
		time.Sleep(time.Millisecond)
	}
	inner = waitedBy(t, pid) - inner
	got := s.Shared()
	outer = waitedBy(t, pid) - outer
	if !strings.HasPrefix(got.Processes, fmt.Sprintf("pid %d, ", pid)) || got.Unknown != "" || got.WaitedS == nil {
		t.Fatalf("got %+v, want process %d", got, pid)
	}
	const rounding = 1e-6
	if w := *got.WaitedS; w < inner-rounding || w > outer+rounding {
		t.Errorf("waited %v s, want %v to %v", w, inner, outer)
	}
}
