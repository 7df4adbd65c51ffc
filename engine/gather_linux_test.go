package engine

import (
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/engine/host"
)

// BenchmarkGather asks whether requests should be kept as blocks, each stored once, and gathered by the kernel, or as one
// image each: a request of 90 kB over loopback to a reader that drains it, from memory that was not touched for long. It
// reports medians of one call's time and of the processor time that its thread took for it.
func BenchmarkGather(b *testing.B) {
	const (
		piece  = 512 * 6 // a block of Mooncake's as token ids
		pieces = 30
		images = 160 << 20 // bytes of requests; of the dictionary, half
	)
	memory, err := host.MapMemory(images)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = host.UnmapMemory(memory) }()
	for i := range memory {
		memory[i] = byte(i)
	}
	chance := rand.New(rand.NewPCG(1, 2))
	var whole [1]unix.Iovec
	var parts [pieces]unix.Iovec
	for _, c := range []struct {
		name string
		iov  []unix.Iovec
		aim  func(i int)
	}{
		{"one image", whole[:], func(i int) {
			at := i * pieces * piece % (len(memory) - pieces*piece)
			whole[0].Base = &memory[at]
			whole[0].SetLen(pieces * piece)
		}},
		{"30 blocks", parts[:], func(int) {
			for j := range parts {
				at := chance.IntN(len(memory)/2/piece) * piece
				parts[j].Base = &memory[at]
				parts[j].SetLen(piece)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkSend(b, pieces*piece, c.iov, c.aim) })
	}
}

func benchmarkSend(b *testing.B, size int, iov []unix.Iovec, aim func(i int)) {
	fd := drained(b, size)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	message := unix.Msghdr{Iov: &iov[0]}
	message.SetIovlen(len(iov))
	var wall, cpu []int64
	var answer [1]byte
	for i := 0; b.Loop(); i++ {
		aim(i)
		cpu0, wall0 := clockNS(unix.CLOCK_THREAD_CPUTIME_ID), clockNS(unix.CLOCK_MONOTONIC)
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), 0)
		wall = append(wall, clockNS(unix.CLOCK_MONOTONIC)-wall0)
		cpu = append(cpu, clockNS(unix.CLOCK_THREAD_CPUTIME_ID)-cpu0)
		if errno != 0 || int(n) != size {
			b.Fatal(n, errno)
		}
		if _, err := unix.Read(fd, answer[:]); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(wall)
	slices.Sort(cpu)
	b.ReportMetric(float64(wall[len(wall)/2]), "ns/call")
	b.ReportMetric(float64(wall[len(wall)/10]), "ns/call-p10")
	b.ReportMetric(float64(cpu[len(cpu)/2]), "cpu-ns/call")
	b.ReportMetric(float64(cpu[len(cpu)/10]), "cpu-ns/call-p10")
}

func clockNS(clock int32) int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(clock, &t) // cannot fail with these clocks
	return t.Nano()
}

// drained is a blocking socket whose peer answers each size bytes with one.
func drained(b *testing.B, size int) (fd int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		buf := make([]byte, 1<<20)
		for got := 0; ; {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if got += n; got == size {
				got = 0
				_, _ = conn.Write(buf[:1])
			}
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		b.Fatal(err)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	return fd
}
