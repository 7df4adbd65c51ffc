package model

import (
	"encoding/binary"
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The spaces of descriptors: the replay's and the sender process's.
const (
	ReplaySpace = iota
	SenderSpace
	spaces
)

// linkFD is the sender process's end of the link.
const linkFD = 5

// firstFD is the lowest descriptor that is given out. As in Unix it is the lowest that is free.
const firstFD = 10

// kernel has the descriptors of both processes.
type kernel struct {
	files   [spaces][]any // *Socket, *epoll, *event; by descriptor less firstFD
	pair    *Link
	sockets []*Socket
	pausing int // readers
}

// Socket is a connection between the client and a server. What one sends the other has at once.
type Socket struct {
	Number   int
	Taken    []byte // all bytes that the kernel took from the client, in order
	Lost     int    // how many of them came after the server's end
	holders  int    // descriptors
	toServer []byte
	toClient []byte
	came     int64
	room     int  // how many bytes the kernel takes now
	lacked   bool // it has refused some
	finished bool // the server sends nothing more
	gone     bool // the server reads nothing more
	broken   bool // and has said so by a reset
	errno    syscall.Errno
	shut     bool // by the client

	watcher *epoll
	event   unix.EpollEvent
	edge    bool
}

func (k *kernel) init() { *k = kernel{} }

// open gives f a descriptor in the space of the process that runs.
func (k *kernel) open(space int, f any) int {
	if s, ok := f.(*Socket); ok {
		s.holders++
	}
	files := k.files[space]
	for i, other := range files {
		if other == nil {
			files[i] = f
			return firstFD + i
		}
	}
	k.files[space] = append(files, f)
	return firstFD + len(files)
}

func space() int {
	if current.running == nil {
		return ReplaySpace
	}
	return current.running.space
}

// file returns what a descriptor of the process that runs is; nil if it is closed.
func (k *kernel) file(fd int) any {
	files := k.files[space()]
	if i := fd - firstFD; i >= 0 && i < len(files) {
		return files[i]
	}
	return nil
}

// die closes the descriptors of a space.
func (k *kernel) die(space int) {
	for i, f := range k.files[space] {
		if s, ok := f.(*Socket); ok {
			s.release()
		}
		k.files[space][i] = nil
	}
}

// OpenFiles returns how many descriptors a space has.
func OpenFiles(space int) (n int) {
	for _, f := range current.kernel.files[space] {
		if f != nil {
			n++
		}
	}
	return n
}

// Sockets are all connections that there were, in order.
func Sockets() []*Socket { return current.kernel.sockets }

// Connect makes a connection of which the kernel takes so many bytes before the server reads.
func Connect(room int) (*Socket, int) {
	Point()
	k := &current.kernel
	s := &Socket{Number: len(k.sockets), room: room}
	k.sockets = append(k.sockets, s)
	fd := k.open(space(), s)
	Note("connection %d, descriptor %d, room for %d bytes", s.Number, fd, room)
	Changed()
	return s, fd
}

// release is the end of a descriptor.
func (s *Socket) release() {
	if s.holders--; s.holders == 0 {
		s.shut = true
		s.watcher = nil
	}
	Changed()
}

// signal tells the epoll instance that something about the connection has changed.
func (s *Socket) signal() {
	s.edge = true
	Changed()
}

// ClientGone reports whether the client has ended the connection.
func (s *Socket) ClientGone() bool { return s.shut }

// Waiting is how many bytes the server has not read.
func (s *Socket) Waiting() int { return len(s.toServer) }

// ServerRead returns up to n bytes that the client has sent.
func (s *Socket) ServerRead(n int) []byte {
	b := s.toServer[:min(n, len(s.toServer))]
	s.toServer = s.toServer[len(b):]
	s.room += len(b)
	if s.lacked && len(b) > 0 {
		s.lacked = false
		s.signal()
	}
	Changed()
	return b
}

// ServerWrite sends bytes to the client.
func (s *Socket) ServerWrite(b []byte) {
	Note("connection %d: the server sends %d bytes", s.Number, len(b))
	if s.shut {
		return
	}
	s.toClient = append(s.toClient, b...)
	s.came += int64(len(b))
	s.signal()
}

// ServerClose ends the connection as close(2) does: with a reset if bytes are unread.
func (s *Socket) ServerClose() {
	if len(s.toServer) > 0 {
		s.ServerReset()
		return
	}
	Note("connection %d: the server closes it", s.Number)
	s.finished, s.gone = true, true
	s.signal()
}

// ServerReset ends the connection with a reset.
func (s *Socket) ServerReset() {
	Note("connection %d: the server resets it", s.Number)
	s.reset()
}

func (s *Socket) reset() {
	s.gone, s.broken = true, true
	if s.errno = syscall.ECONNRESET; s.finished {
		s.errno = syscall.EPIPE // tcp_reset in CLOSE_WAIT
	}
	s.signal()
}

// Unread reports whether the client has not read all that it can: bytes, or the end.
func (s *Socket) Unread() bool {
	return !s.shut && (len(s.toClient) > 0 || s.finished || s.broken)
}

// Roomy reports whether the kernel takes bytes after it has refused some, or has a reset to report that nobody knows.
func (s *Socket) Roomy() bool {
	known := s.broken && s.errno == 0
	return !s.shut && !known && s.room > 0
}

// write is send(2).
func (s *Socket) write(p []byte) (n int, errno syscall.Errno) {
	defer func() { Note("connection %d: the kernel takes %d of %d bytes %v", s.Number, n, len(p), errno) }()
	switch {
	case s.errno != 0:
		errno, s.errno = s.errno, 0
		return 0, errno
	case s.shut || s.broken:
		return 0, syscall.EPIPE
	}
	if n = min(len(p), s.room); n == 0 {
		s.lacked = true
		return 0, syscall.EAGAIN
	}
	s.lacked = n < len(p)
	s.room -= n
	s.Taken = append(s.Taken, p[:n]...)
	Changed()
	if s.gone {
		s.Lost += n
		s.reset()
		return n, 0
	}
	s.toServer = append(s.toServer, p[:n]...)
	return n, 0
}

// read is recv(2). It may find a part of what is there, as if the rest came later.
func (s *Socket) read(p []byte) (n int, errno syscall.Errno) {
	defer func() { Note("connection %d: read %d bytes %v", s.Number, n, errno) }()
	switch {
	case len(s.toClient) > 0:
		n = copy(p, s.toClient)
		s.toClient = s.toClient[n:]
		return n, 0
	case s.finished || s.shut:
		return 0, 0
	case s.errno != 0:
		errno, s.errno = s.errno, 0
		return 0, errno
	case s.broken:
		return 0, 0
	}
	return 0, syscall.EAGAIN
}

// poll is what epoll reports of the connection.
func (s *Socket) poll() (events uint32) {
	if s.room > 0 || s.broken {
		events |= unix.EPOLLOUT
	}
	if len(s.toClient) > 0 {
		events |= unix.EPOLLIN
	}
	if s.finished || s.broken || s.shut {
		events |= unix.EPOLLIN | unix.EPOLLRDHUP
	}
	if s.broken || s.shut {
		events |= unix.EPOLLHUP
	}
	return events
}

type epoll struct {
	sockets []*Socket
	wake    *event
	wakeKey unix.EpollEvent
}

type event struct{ written bool }

func EpollCreate1(int) (int, error)  { return current.kernel.open(space(), new(epoll)), nil }
func Eventfd(uint, int) (int, error) { return current.kernel.open(space(), new(event)), nil }

func EpollCtl(epfd, _, fd int, e *unix.EpollEvent) error {
	Point()
	l := current.kernel.file(epfd).(*epoll)
	switch f := current.kernel.file(fd).(type) {
	case *Socket:
		l.sockets = append(l.sockets, f)
		f.watcher, f.event = l, *e
		f.signal() // what is there already is an event
	case *event:
		l.wake, l.wakeKey = f, *e
	default:
		return syscall.EBADF
	}
	return nil
}

// wait is epoll_wait(2), edge-triggered, for so many ms at most.
func (l *epoll) wait(events []unix.EpollEvent, limit int32) (n int) {
	ready := func() bool {
		for _, s := range l.sockets {
			if s.edge && s.watcher == l {
				return true
			}
		}
		return l.wake.written
	}
	if limit < 0 {
		Until("events", ready)
	} else {
		current.kernel.pause(int64(limit)*1e6, ready)
	}
	for _, s := range l.sockets {
		if s.edge && s.watcher == l && n < len(events) {
			s.edge = false
			events[n] = s.event
			events[n].Events = s.poll()
			n++
		}
	}
	if n == 0 && l.wake.written {
		events[0] = l.wakeKey
		return 1
	}
	return n
}

func Write(fd int, p []byte) (int, error) {
	current.kernel.file(fd).(*event).written = true
	Changed()
	return len(p), nil
}

// Read takes what was written.
func Read(fd int, p []byte) (int, error) {
	current.kernel.file(fd).(*event).written = false
	return len(p), nil
}

// Pausing reports whether a reader pauses.
func Pausing() bool { return current.kernel.pausing > 0 }

// pause lets a reader wait for so long, or until an event. Bytes may lie meanwhile.
func (k *kernel) pause(ns int64, event func() bool) {
	k.pausing++
	UntilTime("the end of a pause", current.nowNS+ns, event)
	k.pausing--
}

func Close(fd int) error {
	Point()
	k := &current.kernel
	f := k.file(fd)
	if f == nil {
		Fail("descriptor %d is closed twice", fd)
	}
	k.files[space()][fd-firstFD] = nil
	if s, ok := f.(*Socket); ok {
		Note("connection %d: descriptor %d is closed", s.Number, fd)
		s.release()
	}
	return nil
}

func Shutdown(fd, _ int) error {
	Point()
	if s, ok := current.kernel.file(fd).(*Socket); ok {
		s.shut = true
		s.signal()
	}
	return nil
}

func GetsockoptTCPInfo(fd, _, _ int) (*unix.TCPInfo, error) {
	s, ok := current.kernel.file(fd).(*Socket)
	if !ok {
		return nil, syscall.EBADF
	}
	const syn = 1
	return &unix.TCPInfo{Bytes_received: uint64(s.came), Bytes_acked: uint64(syn + len(s.Taken) - s.Lost)}, nil
}

func IoctlGetInt(fd int, _ uint) (int, error) {
	if s, ok := current.kernel.file(fd).(*Socket); ok {
		return len(s.toClient), nil
	}
	return 0, syscall.EBADF
}

// Syscall6 is the system calls that wire and engine make themselves.
//
//go:uintptrescapes
func Syscall6(number, a, b, c, d, _, _ uintptr) (r1, r2 uintptr, errno syscall.Errno) {
	if number == unix.SYS_EPOLL_PWAIT {
		events := unsafe.Slice(*(**unix.EpollEvent)(unsafe.Pointer(&b)), c)
		Point()
		return uintptr(current.kernel.file(int(a)).(*epoll).wait(events, int32(d))), 0, 0
	}
	return Syscall(number, a, b, c)
}

// Syscall is Syscall6 with three arguments.
//
//go:uintptrescapes
func Syscall(number, a, b, c uintptr) (r1, r2 uintptr, errno syscall.Errno) {
	if number == unix.SYS_PPOLL {
		Point()
		wake := current.kernel.file(int((*(**unix.PollFd)(unsafe.Pointer(&a))).Fd)).(*event)
		sleep := *(**unix.Timespec)(unsafe.Pointer(&c))
		current.kernel.pause(sleep.Nano(), func() bool { return wake.written })
		return 0, 0, 0
	}
	fd := int(a)
	memory := *(*unsafe.Pointer)(unsafe.Pointer(&b))
	Point()
	n := 0
	switch number {
	case unix.SYS_SENDTO:
		n, errno = send(fd, unsafe.Slice((*byte)(memory), c))
	case unix.SYS_SENDMSG:
		head := (*unix.Msghdr)(memory)
		for _, v := range unsafe.Slice(head.Iov, head.Iovlen) {
			wrote, failed := send(fd, unsafe.Slice(v.Base, v.Len))
			if n += wrote; wrote < int(v.Len) {
				if n == 0 {
					errno = failed
				}
				break
			}
		}
	case unix.SYS_RECVMSG:
		n, errno = receive(fd, (*unix.Msghdr)(memory))
	case unix.SYS_RECVMMSG:
		errno = syscall.EAGAIN
	default:
		Fail("system call %d is not known here", number)
	}
	return uintptr(n), 0, errno
}

func send(fd int, p []byte) (int, syscall.Errno) {
	if fd == linkFD && space() == SenderSpace {
		return current.kernel.link().wakeReplay(len(p))
	}
	s, ok := current.kernel.file(fd).(*Socket)
	if !ok {
		return 0, syscall.EBADF
	}
	return s.write(p)
}

func receive(fd int, head *unix.Msghdr) (int, syscall.Errno) {
	if fd == linkFD && space() == SenderSpace {
		return current.kernel.link().receive(head)
	}
	s, ok := current.kernel.file(fd).(*Socket)
	if !ok {
		return 0, syscall.EBADF
	}
	head.Controllen = 0
	return s.read(unsafe.Slice(head.Iov.Base, head.Iov.Len))
}

// Link is the replay's end of the socket pair between it and the sender process.
type Link struct {
	net.Conn
	messages []message
	wakes    int
	closed   bool // by the replay
	dead     bool // the sender process has ended
}

type message struct {
	bytes  []byte
	socket *Socket
}

// NewLink makes the link of the world.
func NewLink() *Link {
	l := new(Link)
	current.kernel.pair = l
	return l
}

func (k *kernel) link() *Link { return k.pair }

// mostWakes is how many wake-ups the link holds.
const mostWakes = 2

func (l *Link) wakeReplay(n int) (int, syscall.Errno) {
	switch {
	case l.closed:
		return 0, syscall.EPIPE
	case l.wakes == mostWakes:
		return 0, syscall.EAGAIN
	}
	l.wakes++
	Changed()
	return n, 0
}

func (l *Link) receive(head *unix.Msghdr) (int, syscall.Errno) {
	Until("a message from the replay", func() bool { return len(l.messages) > 0 || l.closed })
	if len(l.messages) == 0 {
		return 0, 0
	}
	m := l.messages[0]
	l.messages = l.messages[1:]
	n := copy(unsafe.Slice(head.Iov.Base, head.Iov.Len), m.bytes)
	if m.socket != nil {
		rights := syscall.UnixRights(current.kernel.open(space(), m.socket))
		copy(unsafe.Slice(head.Control, len(rights)), rights)
		m.socket.holders-- // the message's
	}
	Changed()
	return n, 0
}

// Die is the end of the sender process, as the replay sees it.
func (l *Link) Die() {
	l.dead = true
	for _, m := range l.messages {
		if m.socket != nil {
			m.socket.release()
		}
	}
	l.messages = nil
	Changed()
}

// Read waits for a wake-up.
func (l *Link) Read(b []byte) (int, error) {
	Point()
	Until("a wake-up by the senders", func() bool { return l.wakes > 0 || l.dead || l.closed })
	switch {
	case l.wakes > 0:
		l.wakes--
		return 1, nil
	case l.closed:
		return 0, net.ErrClosed
	}
	return 0, io.EOF
}

// WriteMsgUnix sends a message, and maybe a descriptor.
func (l *Link) WriteMsgUnix(b, oob []byte, _ *net.UnixAddr) (n, oobn int, err error) {
	Point()
	switch {
	case l.closed:
		return 0, 0, net.ErrClosed
	case l.dead:
		return 0, 0, syscall.EPIPE
	}
	m := message{bytes: append([]byte(nil), b...)}
	if len(oob) > 0 {
		fd := binary.NativeEndian.Uint32(oob[unix.CmsgLen(0):])
		m.socket = current.kernel.file(int(fd)).(*Socket)
		m.socket.holders++
	}
	l.messages = append(l.messages, m)
	Changed()
	return len(b), len(oob), nil
}

func (l *Link) Close() error {
	l.closed = true
	Changed()
	return nil
}

func (l *Link) SetReadDeadline(time.Time) error { return nil }
