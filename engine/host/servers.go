package host

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Servers are the processes of this machine that listen at the addresses of targets. They are found in /proc, and so on
// Linux alone. One goroutine uses it.
type Servers struct {
	proc    string // where /proc is
	client  int    // process id of the client
	found   map[int]process
	unknown []string      // addresses of which no process could be read, and processes that have ended
	began   map[int]int64 // threadWaits
}

// process is what the kernel says of one.
type process struct {
	pid, parent   int
	name, started string // the start in ticks: a later process may have the same id
}

func (p process) String() string {
	return fmt.Sprintf("pid %d, %s", p.pid, p.name)
}

// FindServers finds who listens at addresses of this machine; nil without addresses. It reads the descriptors of all
// processes, which takes some 2 µs each.
func FindServers(at []netip.AddrPort) *Servers {
	if len(at) == 0 {
		return nil
	}
	return findServers("/proc", os.Getpid(), at)
}

func findServers(proc string, client int, at []netip.AddrPort) *Servers {
	s := &Servers{
		proc:   proc,
		client: client,
		found:  map[int]process{},
	}
	table := listeners(path.Join(proc, "net/tcp")) + listeners(path.Join(proc, "net/tcp6"))
	addressOf := map[string]netip.AddrPort{}
	read := map[netip.AddrPort]bool{}
	for _, address := range at {
		for _, inode := range socketsAt(table, address) {
			addressOf["socket:["+inode+"]"] = address
		}
	}
	all := s.processes()
	for pid, p := range all {
		descriptors := path.Join(proc, strconv.Itoa(pid), "fd")
		entries, _ := os.ReadDir(descriptors) // fails if it is another user's
		for _, entry := range entries {
			link, _ := os.Readlink(path.Join(descriptors, entry.Name()))
			if address, ok := addressOf[link]; ok {
				s.found[pid] = p
				read[address] = true
			}
		}
	}
	for _, address := range at {
		if !read[address] {
			s.unknown = append(s.unknown, address.String())
		}
	}
	return s
}

// Begin takes the waits so far. If s is nil, it does nothing.
func (s *Servers) Begin() {
	if s != nil {
		s.began = s.waits(s.processes())
	}
}

// Shared is what the servers have waited since Begin; nil if s is nil.
func (s *Servers) Shared() *stats.LocalServers {
	if s == nil {
		return nil
	}
	all := s.processes()
	var names, ended []string
	for pid, p := range s.found {
		if now := all[pid]; now.started != p.started {
			ended = append(ended, p.String()+", ended during the run")
			delete(s.found, pid)
		}
	}
	for _, p := range s.found {
		if !s.descends(all, p.pid) { // a server's workers may listen, too
			names = append(names, p.String())
		}
	}
	slices.Sort(names)
	slices.Sort(ended)
	out := &stats.LocalServers{
		Processes: strings.Join(names, "; "),
		Unknown:   strings.Join(append(s.unknown, ended...), "; "),
	}
	waited := waitedSince(s.began, s.waits(all), nil)
	if len(s.began) > 0 && waited != unknown {
		out.WaitedS = new(float64(waited) / 1e9)
	}
	return out
}

// waits is threadWaits of the servers and their descendants.
func (s *Servers) waits(all map[int]process) map[int]int64 {
	waits := map[int]int64{}
	for pid := range all {
		if _, server := s.found[pid]; server || s.descends(all, pid) {
			addThreadWaits(waits, path.Join(s.proc, strconv.Itoa(pid), "task"))
		}
	}
	return waits
}

// descends reports whether a process descends from a server. The client and its descendants do not, nor do those of an
// ancestor of the client. If systemd holds a service's socket, those would be all of the machine.
func (s *Servers) descends(all map[int]process, pid int) bool {
	for range len(all) { // while processes come and go, their parents may form a circle
		if pid == s.client {
			return false
		}
		pid = all[pid].parent
		if _, server := s.found[pid]; server && !s.startedClient(all, pid) {
			return true
		}
	}
	return false
}

// startedClient reports whether a process is the client or an ancestor of it.
func (s *Servers) startedClient(all map[int]process, pid int) bool {
	ancestor := s.client
	for range len(all) {
		if ancestor == pid {
			return true
		}
		ancestor = all[ancestor].parent
	}
	return false
}

// processes are all that can be seen, by id.
func (s *Servers) processes() map[int]process {
	all := map[int]process{}
	entries, _ := os.ReadDir(s.proc)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(path.Join(s.proc, entry.Name(), "stat")) // fails if it has ended
		if p, ok := parseStat(string(text)); ok {
			p.pid = pid
			all[pid] = p
		}
	}
	return all
}

// parseStat reads a process's stat (proc_pid_stat(5)). Its name is in parentheses and may contain some; the parent is
// the 4th field, the start the 22nd.
func parseStat(text string) (p process, ok bool) {
	open := strings.IndexByte(text, '(')
	end := strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return p, false
	}
	third := strings.Fields(text[end+1:]) // and all that follow
	if len(third) < 20 {
		return p, false
	}
	parent, err := strconv.Atoi(third[1])
	return process{
		parent:  parent,
		name:    format.Visible(text[open+1 : end]),
		started: third[19],
	}, err == nil
}

// listening is the state of a socket that accepts connections.
const listening = "0A"

// listeners returns the kernel's table of such sockets; an address is unknown if its table is. The kernel tells them
// before all others (tcp_seq_next), of which a busy machine has ten thousands.
func listeners(table string) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close()
	var found strings.Builder
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 3 && fields[0] != "sl" && fields[3] != listening {
			break
		}
		found.WriteString(lines.Text() + "\n")
	}
	return found.String()
}

// socketsAt returns the inodes of the sockets that accept connections to an address, by the kernel's table
// (proc_net_tcp). Those of the address itself win over those of any address of its family, and these over those of
// IPv6, which may accept IPv4, too.
func socketsAt(table string, at netip.AddrPort) []string {
	var own, family, both []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		local, ok := parseSocketAddress(fields[1])
		if !ok || local.Port() != at.Port() {
			continue
		}
		address := local.Addr()
		inode := fields[9]
		switch {
		case address.Unmap() == at.Addr():
			own = append(own, inode)
		case !address.IsUnspecified():
		case address.Is4() == at.Addr().Is4():
			family = append(family, inode)
		case at.Addr().Is4():
			both = append(both, inode)
		}
	}
	switch {
	case len(own) > 0:
		return own
	case len(family) > 0:
		return family
	}
	return both
}

// parseSocketAddress reads an address and a port in hex. The address is in words of 4 bytes, each in the machine's
// order.
func parseSocketAddress(text string) (at netip.AddrPort, ok bool) {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	number, wrong := strconv.ParseUint(port, 16, 16)
	if err != nil || wrong != nil || len(raw) != 4 && len(raw) != 16 {
		return at, false
	}
	for word := 0; word < len(raw); word += 4 {
		binary.NativeEndian.PutUint32(raw[word:], binary.BigEndian.Uint32(raw[word:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(number)), ok
}
