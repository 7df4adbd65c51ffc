package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Ring sees the heads of all segments that come from given ports, with the kernel's instant of each (packet(7),
// TPACKET_V2). The stamp of a read is that of the last segment which the kernel has joined to others. If the read is
// late, only a ring knows when the others came. It needs CAP_NET_RAW. Any goroutine may call its methods.
//
// TPACKET_V3 would pass frames in blocks, a millisecond after they came at the earliest. A frame of version 2 can be
// read as soon as its bytes can.
type Ring struct {
	fd     int
	memory []byte
	losses atomic.Int64 // how often segments were lost

	mu     sync.Mutex
	lost   int64 // how many
	at     int   // the next frame
	flows  map[flow]*arrivals
	opened map[flow]uint32 // of connections that nobody watches yet, the sequence number of the first byte
}

const (
	// ringFrame has room for a frame's head (80 bytes) and for what headFilter lets through of a segment.
	ringFrame = 80 + headBytes
	// headBytes are enough for the longest IPv4 head, or that of IPv6, and TCP's without its options.
	headBytes = 80
	// mostBlocks hold 0.6 s of 100,000 segments/s: 10 MB.
	mostBlocks  = 160
	leastBlocks = 16
	ringBlock   = 64 << 10
	blockFrames = ringBlock / ringFrame
	// streamFrames are 0.6 s of a stream with a token each 5 ms.
	streamFrames = 120
	// mostOpened bounds Ring.opened: other processes' connections are there, too.
	mostOpened = 1 << 14
	// mostPorts bounds the filter: its jumps are short.
	mostPorts = 64
)

// OpenRing makes a ring of the segments that come from the ports, with room for so many streams at a time. Close ends
// it.
func OpenRing(ports []uint16, streams int) (*Ring, error) {
	filter, err := bpf.Assemble(headFilter(ports))
	if err != nil || len(ports) > mostPorts {
		return nil, fmt.Errorf("no packet filter for %d ports", len(ports))
	}
	fd, err := packetSocket()
	if err != nil {
		return nil, err
	}
	r := &Ring{fd: fd, flows: map[flow]*arrivals{}, opened: map[flow]uint32{}}
	blocks := min(max(streams*streamFrames/blockFrames, leastBlocks), mostBlocks)
	if err := r.begin(filter, blocks); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("a ring of packets: %w", err)
	}
	return r, nil
}

func packetSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, fmt.Errorf("packet sockets need CAP_NET_RAW: %w", err)
	}
	return fd, nil
}

// ProbeRing returns why there may be no ring. The memory of one takes 24 ms of processor time, so it makes none.
func ProbeRing() error {
	fd, err := packetSocket()
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// begin lets the kernel fill the ring.
func (r *Ring) begin(filter []bpf.RawInstruction, blocks int) (err error) {
	program := unix.SockFprog{
		Len:    uint16(len(filter)),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0])), // the same four fields
	}
	size := unix.TpacketReq{
		Block_size: ringBlock,
		Block_nr:   uint32(blocks),
		Frame_size: ringFrame,
		Frame_nr:   uint32(blocks * blockFrames),
	}
	// Kernels before 4.20 do not know it: they pass what leaves to the filter, which refuses it.
	_ = unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	if err = errors.Join(
		unix.SetsockoptSockFprog(r.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program),
		unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &size),
	); err != nil {
		return err
	}
	const access = unix.PROT_READ | unix.PROT_WRITE
	if r.memory, err = unix.Mmap(r.fd, 0, blocks*ringBlock, access, unix.MAP_SHARED); err != nil {
		return err
	}
	everything := binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)
	return unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(everything)})
}

// Close ends the ring and returns how many segments found no room in it.
func (r *Ring) Close() (lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countLost()
	_ = unix.Munmap(r.memory)
	_ = unix.Close(r.fd)
	r.fd = -1
	return r.lost
}

// countLost counts the segments that were lost since the last call.
func (r *Ring) countLost() {
	said, err := unix.GetsockoptTpacketStats(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err == nil && said.Drops > 0 {
		r.lost += int64(said.Drops)
		r.losses.Add(1)
	}
}

// headFilter lets the heads of TCP segments through that come to this machine from the ports.
func headFilter(ports []uint16) []bpf.Instruction {
	f := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		refuseUnless(bpf.JumpEqual, unix.PACKET_HOST),
		bpf.LoadExtension{Num: bpf.ExtProto},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IPV6, SkipTrue: 7},
		refuseUnless(bpf.JumpEqual, unix.ETH_P_IP),
		bpf.LoadAbsolute{Off: 9, Size: 1},
		refuseUnless(bpf.JumpEqual, unix.IPPROTO_TCP),
		bpf.LoadAbsolute{Off: 6, Size: 2},
		refuseUnless(bpf.JumpBitsNotSet, 0x3fff), // a fragment
		bpf.LoadMemShift{Off: 0},                 // X is the length of IPv4's head
		bpf.Jump{Skip: 3},
		bpf.LoadAbsolute{Off: 6, Size: 1},
		refuseUnless(bpf.JumpEqual, unix.IPPROTO_TCP),
		bpf.LoadConstant{Dst: bpf.RegX, Val: sixHead},
		bpf.LoadIndirect{Off: 0, Size: 2},
	}
	for i, port := range ports {
		accept := uint8(len(ports) - i)
		f = append(f, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipTrue: accept})
	}
	refuse := len(f)
	f = append(f, bpf.RetConstant{}, bpf.RetConstant{Val: headBytes})
	for i, step := range f {
		if jump, ok := step.(bpf.JumpIf); ok && jump.SkipFalse == toRefuse {
			jump.SkipFalse = uint8(refuse - i - 1)
			f[i] = jump
		}
	}
	return f
}

// toRefuse marks a jump of which the place of the refusal is not known yet.
const toRefuse = 255

func refuseUnless(is bpf.JumpTest, value uint32) bpf.JumpIf {
	return bpf.JumpIf{Cond: is, Val: value, SkipFalse: toRefuse}
}

// sixHead is the length of IPv6's head. With extension headers, a segment is not seen.
const sixHead = 40

// watch returns what comes on a connection from now on. Nothing may have been read from it.
func (r *Ring) watch(raw syscall.RawConn) *arrivals {
	a := new(arrivals)
	f, err := flowOf(raw) // not with the lock: a reader gives up after some 10 µs
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain() // the answer to our SYN
	if err != nil {
		return a // it never learns where the stream begins
	}
	if first, ok := r.opened[f]; ok {
		a.begin(first)
		delete(r.opened, f)
	}
	a.flow = f
	r.flows[f] = a
	return a
}

// flowOf returns how segments to us name the connection.
func flowOf(raw syscall.RawConn) (f flow, err error) {
	var near, far unix.Sockaddr
	var failed, unnamed error
	err = raw.Control(func(fd uintptr) {
		near, failed = unix.Getsockname(int(fd))
		far, unnamed = unix.Getpeername(int(fd))
	})
	f.from, f.fromPort = place(far)
	f.to, f.toPort = place(near)
	return f, errors.Join(err, failed, unnamed)
}

// place returns an address as segments have it.
func place(at unix.Sockaddr) (address [16]byte, port uint16) {
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		copy(address[:], at.Addr[:])
		port = uint16(at.Port)
	case *unix.SockaddrInet6:
		address = at.Addr
		if mapped := netip.AddrFrom16(at.Addr); mapped.Is4In6() {
			four := mapped.Unmap().As4()
			address = [16]byte{}
			copy(address[:], four[:])
		}
		port = uint16(at.Port)
	}
	return address, port
}

// unwatch ends watch.
func (r *Ring) unwatch(a *arrivals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flows[a.flow] == a {
		delete(r.flows, a.flow)
	}
}

// attempts are how often a reader tries the lock, for some 10 µs. Who holds it longer has lost its processor.
const attempts = 1000

// arrived is arrivals.next, with all that has come until now. Unless it is patient, it never waits for who has lost its
// processor: then nothing is known.
func (r *Ring) arrived(a *arrivals, dst []Arrival, n int, patient bool) ([]Arrival, bool) {
	for tried := 1; !r.mu.TryLock(); tried++ {
		if tried < attempts {
			continue
		}
		if !patient {
			return dst, false
		}
		r.mu.Lock()
		break
	}
	defer r.mu.Unlock()
	r.drain()
	return a.next(dst, n, r.losses.Load())
}

// drain takes what is in the ring.
func (r *Ring) drain() {
	for r.fd >= 0 {
		begin := r.at/blockFrames*ringBlock + r.at%blockFrames*ringFrame
		frame := r.memory[begin : begin+ringFrame]
		head := (*unix.Tpacket2Hdr)(unsafe.Pointer(&frame[0]))
		status := atomic.LoadUint32(&head.Status)
		if status&unix.TP_STATUS_USER == 0 {
			return
		}
		if status&unix.TP_STATUS_LOSING != 0 {
			r.countLost()
		}
		size := min(int(head.Snaplen), ringFrame-int(head.Net))
		r.segment(frame[head.Net:][:size], int(head.Len), int64(head.Sec)*1e9+int64(head.Nsec))
		atomic.StoreUint32(&head.Status, unix.TP_STATUS_KERNEL)
		r.at = (r.at + 1) % (len(r.memory) / ringBlock * blockFrames)
	}
}

// segment notes a segment by its heads; length is that of the packet.
func (r *Ring) segment(p []byte, length int, wallNS int64) {
	f, tcp, payload, ok := parseHeads(p, length)
	if !ok {
		return
	}
	sequence := binary.BigEndian.Uint32(tcp[4:])
	const syn = 2
	a := r.flows[f]
	switch {
	case tcp[13]&syn != 0:
		if len(r.opened) == mostOpened {
			clear(r.opened)
		}
		r.opened[f] = sequence + 1
	case a != nil && payload > 0:
		a.add(sequence, payload, wallNS)
	}
}

// parseHeads reads the heads of a segment, and how many bytes it bears.
func parseHeads(p []byte, length int) (f flow, tcp []byte, payload int, ok bool) {
	const fourHead, tcpHead = 20, 20
	head, size := 0, 0
	switch {
	case len(p) >= fourHead && p[0]>>4 == 4:
		head = int(p[0]&15) * 4
		size = int(binary.BigEndian.Uint16(p[2:]))
		copy(f.from[:], p[12:16])
		copy(f.to[:], p[16:20])
	case len(p) >= sixHead && p[0]>>4 == 6:
		head = sixHead
		size = sixHead + int(binary.BigEndian.Uint16(p[4:]))
		copy(f.from[:], p[8:24])
		copy(f.to[:], p[24:40])
	}
	if head < fourHead || len(p) < head+tcpHead {
		return f, nil, 0, false
	}
	if size <= head { // too large for the field: several segments that a card has joined
		size = length
	}
	tcp = p[head:]
	f.fromPort = binary.BigEndian.Uint16(tcp)
	f.toPort = binary.BigEndian.Uint16(tcp[2:])
	return f, tcp, size - head - int(tcp[12]>>4)*4, true
}
