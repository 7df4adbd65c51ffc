package shard

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// leader decides about the start, in shard 0. Nothing is read or written while its lock is held.
type leader struct {
	*Group // of which only what does not change is used
	http   *http.Server

	mu        sync.Mutex
	strangers []net.Conn         // that have not proven the secret, in the order in which they came
	proven    map[net.Conn]*peer // that have; without a peer it has not said which shard it is
	peers     []*peer            // by index; nil = it has not come
	readyAt   time.Time          // of shard 0; zero = it is not ready
	start     time.Time          // zero = it is not agreed on
	zero      *sched.Monotonic   // counts from there
	stop      string             // why nobody starts; "" = somebody may
	decided   chan struct{}      // closed when start or stop is set
}

// peer is a shard that has come.
type peer struct {
	hello
	seen time.Time // when it last asked
	gone bool
}

// What the leader bears of others.
const (
	maxBody      = 1 << 16 // bytes that a shard says at a time, or is told
	maxHeader    = 1 << 12 // bytes, to which net/http adds 4,096
	maxStrangers = 64      // connections
	spare        = 8       // connections besides one of each shard
)

// lead takes the place for a start, and lets shards come.
func lead(g *Group) (*leader, error) {
	at := g.place.address
	if at == "" {
		at = ":0" // by which of its addresses the others reach this machine is unknown
		if err := g.place.draw(); err != nil {
			return nil, err
		}
	}
	proof, err := identity(g.place.secret)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf(
			"shard 0 cannot listen there: %w; want a free port of its machine, or tcp://0.0.0.0:PORT for shard 0 "+
				"behind a service", err)
	}
	g.name = fmt.Sprintf("%016x", rand.Uint64())
	l := &leader{
		Group:   g,
		proven:  map[net.Conn]*peer{},
		peers:   make([]*peer, g.Count),
		decided: make(chan struct{}),
	}
	handler := http.NewServeMux()
	handler.HandleFunc("POST "+helloPath, l.serveHello)
	handler.HandleFunc("POST "+clockPath, l.serveClock)
	l.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: askTimeout, // also of the handshake
		ReadTimeout:       askTimeout + g.times.look,
		WriteTimeout:      askTimeout + g.times.look,
		IdleTimeout:       10 * g.times.silence,
		MaxHeaderBytes:    maxHeader,
		ConnState:         l.onState,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ErrorLog: log.New(io.Discard, "", 0), // strangers would fill it
	}
	go func() { _ = l.http.Serve(tls.NewListener(&stampedListener{listener}, proof)) }()
	return l, l.announce(listener.Addr().String())
}

// announce says where shard 0 listens, to the user and in the directory.
func (l *leader) announce(at string) error {
	if l.place.address != "" {
		l.Say("shard 0 listens at " + at)
		return nil
	}
	_, port, _ := net.SplitHostPort(at)
	l.Say("shard 0 listens at port " + port + " of all addresses, for those who can read " + l.place.file())
	return l.place.post(&rendezvous{Secret: l.place.secret, Addresses: ownAddresses(port)})
}

type connKey struct{}

func connOf(r *http.Request) *tls.Conn { return r.Context().Value(connKey{}).(*tls.Conn) }

// onState bounds connections, and notices those that end. A connection is a stranger's until its first request, since
// that takes the secret. The stranger that has waited longest makes room for the next one, so that none keeps a shard
// out.
func (l *leader) onState(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.strangers)
	l.strangers = slices.DeleteFunc(l.strangers, func(c net.Conn) bool { return c == conn })
	switch state {
	case http.StateNew:
		l.strangers = append(l.strangers, conn)
		if len(l.strangers) > maxStrangers {
			hangUp(l.strangers[0])
			l.strangers = l.strangers[1:]
		}
	case http.StateActive:
		if before == len(l.strangers) {
			return
		}
		if len(l.proven) > l.Count+spare {
			hangUp(conn)
			return
		}
		l.proven[conn] = nil
	case http.StateClosed:
		if p := l.proven[conn]; p != nil {
			p.gone = true
		}
		delete(l.proven, conn)
		l.decide()
	}
}

// hangUp ends a connection without TLS's farewell, for which we might wait.
func hangUp(conn net.Conn) { _ = conn.(*tls.Conn).NetConn().Close() }

// serveHello takes what a shard says of itself, and answers what is decided.
func (l *leader) serveHello(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var said hello
	if err != nil || json.Unmarshal(text, &said) != nil || said.Index < 0 || said.Index >= said.Count {
		http.Error(w, "this is no shard", http.StatusBadRequest)
		return
	}
	answer(w, l.meet(r.Context(), connOf(r), &said))
}

func answer(w http.ResponseWriter, v any) {
	text, _ := json.Marshal(v)
	_, _ = w.Write(text) // if it fails, the connection ends
}

// meet notes what a shard says of itself, and answers what is decided for it, or after a while that nothing is. Shard 0
// has no connection.
func (l *leader) meet(ctx context.Context, conn net.Conn, said *hello) *decision {
	l.mu.Lock()
	refusal := l.note(conn, said)
	l.mu.Unlock()
	if refusal != "" {
		return &decision{Stop: refusal}
	}
	decided := l.decided
	if said.Load == "" {
		decided = nil // a start is not for it yet
	}
	select {
	case <-decided:
	case <-ctx.Done():
	case <-time.After(l.times.look):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decide()
	d := &decision{Name: l.name, Missing: l.missing(), Stop: l.stop}
	if said.Load != "" {
		d.Start = l.start
	}
	return d
}

// note takes in what a shard says of itself. It returns why this shard alone does not start; "" = nothing is known.
func (l *leader) note(conn net.Conn, said *hello) (refusal string) {
	p, open := l.proven[conn]
	if !open && conn != nil {
		return "there are too many connections" // and it is none: its end must not count as a shard's
	}
	var first *peer
	if said.Index < l.Count {
		first = l.peers[said.Index]
	}
	if first != nil && first != p {
		return first.name() +
			" is there already: two shards have one index, or it was started again; a barrier serves one start"
	}
	refusal = said.differs(&hello{Part: l.Part, Version: l.Version})
	if refusal == "" {
		p = &peer{hello: *said, seen: time.Now()}
		l.proven[conn] = p
		l.peers[said.Index] = p
	} else if l.start.IsZero() {
		l.end(refusal)
	}
	if refusal == "" && !l.start.IsZero() {
		refusal = said.differs(&l.peers[0].hello)
	}
	l.decide()
	return refusal
}

// decide decides what can be decided now: that nobody starts, or when all do.
func (l *leader) decide() {
	zero := l.peers[0]
	if l.stop != "" || !l.start.IsZero() || zero == nil {
		return
	}
	for _, p := range l.peers {
		if p == nil {
			continue
		}
		if why := p.rejection(zero, l.times.silence); why != "" {
			l.end(why)
			return
		}
	}
	if zero.Load == "" {
		return
	}
	if l.readyAt.IsZero() {
		l.readyAt = time.Now()
	}
	missing := l.missing()
	late := time.Since(l.readyAt) > l.times.patience
	if missing == "" || late && l.Late == LateJoin {
		l.start = time.Now().Add(l.times.lead + time.Duration(l.shiftNS)).UTC()
		l.zero = l.newClock(l.start)
		close(l.decided)
	} else if late {
		l.end(fmt.Sprintf("shards are missing %v after shard 0 was ready%s", l.times.patience, missing))
	}
}

// rejection says why a shard that has come keeps all from starting; "" = nothing is known.
func (p *peer) rejection(zero *peer, silence time.Duration) string {
	switch {
	case p.Failed != "":
		return p.name() + " failed before the start: " + p.Failed
	case p.gone:
		return p.name() + " ended before the start"
	case p != zero && time.Since(p.seen) > silence:
		return fmt.Sprintf("%s gave no sign of life for %v before the start", p.name(), silence)
	}
	return p.differs(&zero.hello)
}

// end says why nobody starts.
func (l *leader) end(why string) {
	if l.stop == "" {
		l.stop = why
		close(l.decided)
	}
}

// missing says which shards are not ready, or have not come; "" = none.
func (l *leader) missing() (text string) {
	var busy, absent []string
	for i, p := range l.peers {
		if p == nil {
			absent = append(absent, strconv.Itoa(i))
		} else if p.Load == "" {
			busy = append(busy, strconv.Itoa(i))
		}
	}
	if len(busy) > 0 {
		text = "; not ready: shard " + few(busy)
	}
	if len(absent) > 0 {
		text += "; not there: shard " + few(absent)
	}
	return text
}

// few are the first of a list: it must fit into what a shard is told, and into a line.
func few(list []string) string {
	const most = 20
	text := strings.Join(list[:min(len(list), most)], ", ")
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

// close waits a little for the shards that are there, and lets nobody come any more.
func (l *leader) close() {
	for end := time.Now().Add(l.times.linger); l.company() && time.Now().Before(end); {
		time.Sleep(l.times.look / 10)
	}
	_ = l.http.Close()
	l.mu.Lock()
	over := "its run has ended"
	if l.stop != "" {
		over = l.stop + unsent
	}
	l.mu.Unlock()
	_ = l.place.post(&rendezvous{Over: over})
}

// company reports whether other shards are connected. Shard 0 is in the map, without a connection.
func (l *leader) company() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.proven, nil)
	return len(l.proven) > 0
}
