package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cards returns what the machine's network cards that are up do to the instants of what comes. What a driver does not
// tell is left out.
func Cards() (cards []Card) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	devices, _ := filepath.Glob("/sys/class/net/*/device") // without them, there is nothing to say
	for _, device := range devices {
		card := filepath.Dir(device)
		said, _ := os.ReadFile(filepath.Join(card, "flags"))
		flags, _ := strconv.ParseUint(strings.TrimSpace(string(said)), 0, 32)
		if flags&unix.IFF_UP != 0 {
			cards = append(cards, readCard(fd, filepath.Base(card)))
		}
	}
	return cards
}

// readCard asks the driver of a card (linux/ethtool.h).
func readCard(fd int, name string) Card {
	c := Card{Name: name}
	var delays struct {
		command uint32
		rxUsecs uint32
		others  [8]uint32 // counts of frames, and those of sending
		adapts  uint32
		rest    [12]uint32
	}
	delays.command = unix.ETHTOOL_GCOALESCE
	if askCard(fd, name, unsafe.Pointer(&delays)) {
		c.DelayUS = new(int(delays.rxUsecs))
		c.Adapts = delays.adapts != 0
	}
	joins := struct{ command, on uint32 }{command: unix.ETHTOOL_GGRO}
	if askCard(fd, name, unsafe.Pointer(&joins)) {
		c.Joins = joins.on != 0
	}
	if can, err := unix.IoctlGetEthtoolTsInfo(fd, name); err == nil {
		c.Stamps = can.So_timestamping&unix.SOF_TIMESTAMPING_RX_HARDWARE != 0
	}
	return c
}

// askCard lets the driver fill in a structure of ethtool, and reports whether it has.
func askCard(fd int, name string, into unsafe.Pointer) bool {
	request := struct { // ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: into}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	return errno == 0
}
