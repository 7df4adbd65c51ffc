// Command recorder is a neutral server of completions that records when each request arrived and when each token left.
//
// scripts/rivals holds what every load generator reports against this record. It shares no code with any of them: it reads and
// writes sockets itself, on one thread, with epoll. Instants are ns of CLOCK_REALTIME. An arrival is the kernel's stamp
// (SO_TIMESTAMPNS) of the segment with the request's first byte, so that the server's own delay is not part of it.
//
// The model is the simplest: the first token leaves --ttft after the last byte of the request came, each further one --tpot later.
package main

import (
	"bufio"
	"container/heap"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	var s server
	address := flag.String("listen", "127.0.0.1:8900", "address and port")
	flag.DurationVar(&s.ttft, "ttft", 30*time.Millisecond, "from the last byte of a request to the first token")
	flag.DurationVar(&s.tpot, "tpot", 10*time.Millisecond, "from one token to the next")
	log := flag.String(
		"log",
		"",
		"JSONL `FILE`, a line a request in order of arrival, written at GET /finish (default: none is kept)",
	)
	bodies := flag.String("bodies", "", "`FILE` for all request bodies, one after the other")
	flag.Parse()
	runtime.LockOSThread()
	debug.SetGCPercent(400)
	listener, err := listen(*address)
	if err == nil {
		err = s.serve(listener, *log, *bodies)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

// entry is what is recorded of a request. Instants are ns of CLOCK_REALTIME.
type entry struct {
	Path      string  `json:"path"`
	RequestID string  `json:"request_id"`
	ArrivedNS int64   `json:"arrived_ns"` // of the first byte, by the kernel
	WholeNS   int64   `json:"whole_ns"`   // of the last byte, by the kernel
	BodyAt    int64   `json:"body_at"`    // in the file of bodies
	BodyBytes int     `json:"body_bytes"`
	Tokens    int     `json:"tokens"`   // asked for
	TokenNS   []int64 `json:"token_ns"` // just before the write of each token
	DoneNS    int64   `json:"done_ns"`  // 0 = the client left earlier
}

// server is used by one thread. conns is indexed by descriptor.
type server struct {
	ttft, tpot   time.Duration
	epoll, timer int
	conns        map[int]*conn
	due          dueHeap
	keep         bool
	entries      []*entry
	bodies       *bufio.Writer
	bodyBytes    int64
}

// serve answers until GET /finish. log and bodies name files; "" = none.
func (s *server) serve(listener int, log, bodies string) (err error) {
	if s.epoll, err = unix.EpollCreate1(0); err != nil {
		return err
	}
	if s.timer, err = unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK); err != nil {
		return err
	}
	s.conns, s.keep = map[int]*conn{}, log != ""
	if bodies != "" {
		f, err := os.Create(bodies)
		if err != nil {
			return err
		}
		defer f.Close()
		s.bodies = bufio.NewWriterSize(f, 1<<20)
	}
	for _, fd := range []int{listener, s.timer} {
		if err := s.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	defer func() {
		for fd := range s.conns {
			_ = unix.Close(fd)
		}
		err = errors.Join(err, unix.Close(listener), unix.Close(s.timer), unix.Close(s.epoll))
	}()
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, e := range events[:max(0, n)] {
			switch fd := int(e.Fd); fd {
			case listener:
				s.accept(listener)
			case s.timer:
				var expirations [8]byte
				_, _ = unix.Read(s.timer, expirations[:])
			default:
				if c := s.conns[fd]; c != nil && s.ready(c, e.Events) {
					return s.finish(log)
				}
			}
		}
		if err := s.release(); err != nil {
			return err
		}
	}
}

func listen(address string) (fd int, err error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, err
	}
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0); err != nil {
		return 0, err
	}
	// Stamps are asked for before listen, so that no connection starts without them.
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}),
		unix.Listen(fd, 4096),
	)
	return fd, err
}

// watch adds a descriptor, or changes (op) what it is watched for.
func (s *server) watch(op, fd int, events uint32) error {
	return unix.EpollCtl(s.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (s *server) accept(listener int) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		if s.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLRDHUP) != nil {
			_ = unix.Close(fd)
			continue
		}
		s.conns[fd] = &conn{fd: fd}
	}
}

// release sends every token whose instant has come, and sets the timer to the next instant.
func (s *server) release() error {
	for len(s.due) > 0 && s.due[0].at <= now() {
		s.send(heap.Pop(&s.due).(due).c)
	}
	var next unix.ItimerSpec // zero disarms
	if len(s.due) > 0 {
		next.Value = unix.NsecToTimespec(s.due[0].at)
	}
	return unix.TimerfdSettime(s.timer, unix.TFD_TIMER_ABSTIME, &next, nil)
}

// finish writes the record.
func (s *server) finish(log string) error {
	if s.bodies != nil {
		if err := s.bodies.Flush(); err != nil {
			return err
		}
	}
	if !s.keep {
		return nil
	}
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	out := json.NewEncoder(w)
	for _, e := range s.entries {
		if err := out.Encode(e); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &t); err != nil {
		panic(err) // CLOCK_REALTIME always exists
	}
	return t.Nano()
}
