package shard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// leader decides about the start, in shard 0.
type leader struct {
	*Group   // of which only what does not change is used
	listener *net.TCPListener
	barrier  uint64

	mu      sync.Mutex
	peers   []*peer          // in the order in which they came
	readyAt time.Time        // of shard 0; zero = it is not ready
	said    time.Time        // when the leader said last whom it waits for
	start   time.Time        // zero = it is not agreed on
	zero    *sched.Monotonic // counts from there
	stop    string           // why nobody starts; "" = somebody may
}

// peer is a shard that has come.
type peer struct {
	presence
	conn net.Conn
	gone bool
	told bool // what was decided
}

const (
	askTimeout = 3 * time.Second
	maxSaid    = 1 << 20 // bytes that a shard says at a time
)

// silence is after how long a machine without a sign of life is dead: 90 s. If a process dies, that is known at once.
func silence() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 4}
}

// entry is the file by which shards find the leader in a directory.
type entry struct {
	Barrier   uint64
	Addresses []string
	Over      string // why nobody can come any more; "" = the leader is there
}

const entryName = "begin"

var errOver = errors.New("this barrier is over")

func readEntry(dir string) (e entry, err error) {
	text, err := os.ReadFile(filepath.Join(dir, entryName))
	if errors.Is(err, fs.ErrNotExist) {
		return e, errors.New("it has not begun")
	}
	if err = cmp.Or(err, json.Unmarshal(text, &e)); err == nil && e.Over != "" {
		return entry{}, fmt.Errorf("%w: %s; give each run a directory of its own", errOver, e.Over)
	}
	return e, err
}

// post puts the entry into the directory. Who reads it while it is written reads it again.
func (l *leader) post(over string) error {
	if l.address != "" {
		return nil
	}
	e := entry{Barrier: l.barrier, Over: over}
	_, port, _ := net.SplitHostPort(l.listener.Addr().String())
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			e.Addresses = append(e.Addresses, net.JoinHostPort(prefix.Addr().String(), port))
		}
	}
	text, _ := json.Marshal(&e)
	return os.WriteFile(filepath.Join(l.Where, entryName), text, 0o644)
}

// lead begins a barrier. The leader listens on all addresses: that of a URL may be one of a service before it.
func lead(g *Group, port string) (*leader, error) {
	if g.address == "" {
		if err := os.MkdirAll(g.Where, 0o777); err != nil {
			return nil, err
		}
		if info, err := os.Stat(filepath.Join(g.Where, entryName)); err == nil {
			return nil, fmt.Errorf("the barrier of another run is there, of %s: give each run a directory of its own", info.ModTime().UTC().Format(time.RFC3339))
		}
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return nil, fmt.Errorf("shard 0 cannot listen there: %w", err)
	}
	l := &leader{Group: g, listener: listener.(*net.TCPListener), barrier: rand.Uint64()}
	go l.run()
	return l, l.post("")
}

// run lets shards come, and looks at them again and again.
func (l *leader) run() {
	for {
		_ = l.listener.SetDeadline(time.Now().Add(l.times.look))
		conn, err := l.listener.AcceptTCP()
		switch {
		case err == nil:
			go l.talk(conn)
		case errors.Is(err, net.ErrClosed):
			return
		case !errors.Is(err, os.ErrDeadlineExceeded): // no descriptor is free
			time.Sleep(l.times.look)
		}
		l.look()
	}
}

// talk hears a shard until it leaves.
func (l *leader) talk(conn *net.TCPConn) {
	defer conn.Close()
	p := &peer{conn: conn}
	bounded := &io.LimitedReader{R: conn, N: maxSaid}
	in := json.NewDecoder(bounded)
	_ = conn.SetDeadline(time.Now().Add(askTimeout))
	if in.Decode(&p.presence) != nil || p.Barrier != 0 && p.Barrier != l.barrier {
		return // a stranger
	}
	_, _ = conn.SetDeadline(time.Time{}), conn.SetKeepAliveConfig(silence())
	p.tell(word{Barrier: l.barrier})
	l.mu.Lock()
	l.peers = append(l.peers, p)
	l.mu.Unlock()
	for err := error(nil); err == nil; {
		var said presence
		bounded.N = maxSaid
		err = in.Decode(&said)
		l.mu.Lock()
		if p.gone = err != nil; said.Asks && l.zero != nil {
			p.tell(word{T2: l.zero.Now(), T3: l.zero.Now()})
		} else if !p.gone {
			p.presence = said
		}
		l.mu.Unlock()
	}
}

func (p *peer) tell(w word) { _ = json.NewEncoder(p.conn).Encode(&w) } // if it fails, talk knows

// look decides what can be decided, and tells it those that do not know it. It reports whether all shards have left.
func (l *leader) look() (alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by := map[int]*peer{} // of several with one index the first
	for _, p := range l.peers {
		by[p.Index] = cmp.Or(by[p.Index], p)
	}
	if l.start.IsZero() {
		for _, p := range l.peers {
			l.stop = cmp.Or(l.stop, p.against(by))
		}
		l.agree(by)
	}
	alone = true
	for _, p := range l.peers {
		w := word{Start: l.start, Stop: cmp.Or(l.stop, p.against(by))}
		if !p.told && (w.Stop != "" || p.Load != "" && !w.Start.IsZero()) {
			p.told = true
			p.tell(w)
		}
		alone = alone && p.gone
	}
	return alone
}

// against says why a shard cannot start, among others by their indices; "" = nothing is known.
func (p *peer) against(by map[int]*peer) string {
	switch first, zero := by[p.Index], by[0]; {
	case p.Failed != "":
		return p.name() + " failed before the start: " + p.Failed
	case p.gone:
		return p.name() + " ended before the start"
	case p != first:
		return first.name() + " is there already: two shards have one index, or it was started again; a barrier serves one start"
	case zero != nil:
		return p.differs(&zero.presence)
	}
	return ""
}

// agree sets the start if all are ready, or, if shard 0 has waited long enough, for those that are, or stops.
func (l *leader) agree(by map[int]*peer) {
	var busy, absent []string
	for i := range l.Count {
		if p := by[i]; p == nil {
			absent = append(absent, strconv.Itoa(i))
		} else if p.Load == "" {
			busy = append(busy, strconv.Itoa(i))
		}
	}
	if zero := by[0]; l.stop != "" || zero == nil || zero.Load == "" {
		return
	} else if l.readyAt.IsZero() {
		l.readyAt, l.said = time.Now(), time.Now()
	}
	missing := ""
	if len(busy) > 0 {
		missing += "; not ready: shard " + strings.Join(busy, ", ")
	}
	if len(absent) > 0 {
		missing += "; not there: shard " + strings.Join(absent, ", ")
	}
	switch late := time.Since(l.readyAt) > l.times.patience; {
	case missing == "" || late && l.Late == LateJoin:
		l.start = time.Now().Add(l.times.lead + time.Duration(l.shiftNS)).UTC()
		l.zero = l.newClock(l.start)
	case late:
		l.stop = fmt.Sprintf("shards are missing %v after shard 0 was ready%s", l.times.patience, missing)
	case time.Since(l.said) > l.times.remind:
		l.said = time.Now()
		for _, p := range l.peers {
			p.tell(word{Missing: missing})
		}
	}
}

// close waits a little for the shards that are there, and lets nobody come any more.
func (l *leader) close() {
	for end := time.Now().Add(l.times.linger); !l.look() && time.Now().Before(end); {
		time.Sleep(l.times.look / 10)
	}
	_ = l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	over := "its run has ended"
	if l.stop != "" {
		over = l.stop + unsent
	}
	_ = l.post(over)
}
