package engine

import (
	"fmt"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/sched"
)

// spawn starts the process with shared header and slots, arena, link and, for https, TLS ring as its descriptors 3 to
// 6.
func (l *senderProcess) spawn(command []string, places int) error {
	n := l.run.work.Requests()
	file, memory, err := host.NewSharedMemory("fastreplay-slots", sharedSize(n))
	if err != nil {
		return fmt.Errorf("shared memory: %w", err)
	}
	defer func() { _ = file.Close() }()
	l.memory = memory
	l.header = headerOf(memory)
	l.slots = slotsOf(memory, n)
	l.fill(places)
	files := []*os.File{file, l.run.work.Prebuilt.File(), nil}
	if l.run.work.UsesTLS() {
		size := max(minRing, ringOfLargest*int64(l.run.work.Prebuilt.Largest()))
		ringFile, bytes, err := host.NewSharedMemory("fastreplay-tls-ring", size)
		if err != nil {
			return fmt.Errorf("shared memory: %w", err)
		}
		defer func() { _ = ringFile.Close() }()
		l.ring = &tlsRing{bytes: bytes}
		l.header.ringBytes = int64(len(bytes))
		files = append(files, ringFile)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours := os.NewFile(uintptr(pair[0]), "senders")
	theirs := os.NewFile(uintptr(pair[1]), "replay")
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	link, err := net.FileConn(ours)
	if err != nil {
		return err
	}
	l.link = link.(*net.UnixConn)
	l.cmd = exec.Command(command[0], command[1:]...)
	files[2] = theirs
	l.cmd.ExtraFiles = files
	l.cmd.Env = append(os.Environ(), "GODEBUG="+os.Getenv("GODEBUG")+","+sched.LoneGODEBUG)
	l.cmd.Stderr = os.Stderr
	if err := l.cmd.Start(); err != nil {
		_ = l.link.Close()
		l.cmd = nil
		return err
	}
	return nil
}
