package shard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// Each shard, shard 0 too, has a connection to the leader, which is in shard 0. It sends a presence when it comes, when it is ready, and if
// it cannot start. A word comes back: at once, and then when something is decided. From then on it asks for the time.
type (
	// presence is what a shard says of itself.
	presence struct {
		Part
		Barrier uint64 // that it found in a directory; 0 = it goes by an address
		Host    string
		PID     int
		Version string
		Load    string            // "" = it is not ready
		About   map[string]string // what made the load
		Failed  string            // why it cannot start; "" = nothing is against it
		Asks    bool              // for the time; the rest is not there
	}
	// word is what the leader says to a shard.
	word struct {
		Barrier uint64    // a random number
		Missing string    // whom it waits for
		Start   time.Time // instant 0 by the clock of shard 0; zero = it is not agreed on
		Stop    string    // why the shard does not start; "" = it may
		T2, T3  int64     // ns since the start: when a question for the time came, and when this left
	}
)

// The values of --late: what becomes of a shard that is not ready in time.
const (
	LateFail = "fail"
	LateJoin = "join"
)

// times are those of a barrier.
type times struct {
	look     time.Duration // how often a shard looks for shard 0
	lead     time.Duration // from shard 0's decision to the start: all know of it before
	patience time.Duration // how long a shard that is ready waits for others
	remind   time.Duration // how often it says so
	sample   time.Duration // how often clocks are compared during a run
	linger   time.Duration // how long shard 0 answers after its end, at most
}

// Hello is what a shard brings to a barrier.
type Hello struct {
	Part
	Where   string       // a directory, or the URL of shard 0
	Version string       // of fastreplay
	Late    string       // LateFail or LateJoin
	Say     func(string) // prints whom the shard waits for
}

// Group is a shard's place among the others. Make it with Join. Call Ready once, End after a run, and Leave at last.
type Group struct {
	Hello
	times   times
	address string  // of shard 0; "" = Where is a directory
	leader  *leader // nil but in shard 0
	me      presence
	barrier uint64
	conn    net.Conn      // to the leader
	in      *json.Decoder // of it
	cancel  context.CancelCauseFunc
	agreed  chan time.Time // the start

	shiftNS int64 // by which a test puts this machine's clock ahead
	clock   *sched.Monotonic
	samples []Offset
	asking  sync.WaitGroup
}

// Join waits for shard 0 at a barrier. The context that it returns ends if a shard fails before the start; its cause says which, and why.
func Join(ctx context.Context, h Hello) (*Group, context.Context, error) {
	return join(ctx, h, times{500 * time.Millisecond, 4 * time.Second, 10 * time.Minute, 10 * time.Second, 5 * time.Second, 2 * time.Second}, 0)
}

func join(ctx context.Context, h Hello, t times, shiftNS int64) (_ *Group, _ context.Context, err error) {
	g := &Group{Hello: h, times: t, agreed: make(chan time.Time, 1), shiftNS: shiftNS}
	g.me = presence{Part: h.Part, PID: os.Getpid(), Version: h.Version}
	g.me.Host, _ = os.Hostname()
	port := "0"
	if strings.Contains(h.Where, "://") {
		u, err := url.Parse(h.Where)
		if err != nil || u.Port() == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
			return nil, ctx, fmt.Errorf("--start-barrier %s: want a directory, or tcp://HOST:PORT where HOST is the machine of shard 0", h.Where)
		}
		g.address, port = u.Host, u.Port()
	} else if _, number, err := net.SplitHostPort(h.Where); err == nil && number != "" && !strings.Contains(h.Where, "/") {
		return nil, ctx, fmt.Errorf("--start-barrier %s: is this the machine of shard 0? Then give tcp://%s; else ./%s", h.Where, h.Where, h.Where)
	}
	joined, cancel := context.WithCancelCause(ctx)
	g.cancel = cancel
	if h.Leads() {
		g.leader, err = lead(g, port)
	}
	if err == nil {
		err = g.enter(ctx)
	}
	if err != nil {
		g.close()
		return nil, ctx, fmt.Errorf("--start-barrier %s: %w", h.Where, err)
	}
	return g, joined, nil
}

// enter looks for the leader until it answers.
func (g *Group) enter(ctx context.Context) error {
	for began, said := time.Now(), time.Now(); ; {
		err := g.dial()
		switch {
		case err == nil || errors.Is(err, errOver):
			return err
		case time.Since(began) > g.times.patience:
			return fmt.Errorf("shard 0 did not come within %v: %w", g.times.patience, err)
		case time.Since(said) > g.times.remind:
			g.Say("waiting for shard 0 at " + g.Where + ": " + err.Error())
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(g.times.look):
		}
	}
}

// dial tries the addresses of the leader, and hears it from then on.
func (g *Group) dial() error {
	at, err := entry{Addresses: []string{g.address}}, error(nil)
	if g.address == "" {
		at, err = readEntry(g.Where)
	}
	if g.address != "" && g.leader != nil { // to which its own machine may not reach: that of a service before it
		_, port, _ := net.SplitHostPort(g.leader.listener.Addr().String())
		at.Addresses = append(at.Addresses, net.JoinHostPort("localhost", port))
	}
	if err == nil && len(at.Addresses) == 0 {
		err = errors.New("it has no address")
	}
	g.me.Barrier = at.Barrier
	dialer := net.Dialer{Timeout: askTimeout, KeepAliveConfig: silence()}
	for _, address := range at.Addresses {
		conn, failed := dialer.Dial("tcp", address)
		if err = failed; err != nil {
			continue
		}
		var w word
		in := json.NewDecoder(conn)
		if err = conn.SetDeadline(time.Now().Add(10 * askTimeout)); err == nil { // who asks again is a second one for a leader that is slow
			err = json.NewEncoder(conn).Encode(&g.me)
		}
		if err == nil {
			err = in.Decode(&w)
		}
		if err == nil {
			_ = conn.SetDeadline(time.Time{})
			g.conn, g.in, g.barrier = conn, in, w.Barrier
			go g.listen()
			return nil
		}
		_ = conn.Close()
	}
	return err
}

// listen hears the leader until the start, or until there can be none.
func (g *Group) listen() {
	for {
		var w word
		switch err := g.in.Decode(&w); {
		case err != nil:
			g.cancel(errors.New("shard 0 ended before the start" + unsent))
			return
		case w.Stop != "":
			g.cancel(errors.New(w.Stop + unsent))
			return
		case !w.Start.IsZero():
			g.agreed <- w.Start
			return
		}
		g.Say("waiting for the other shards" + w.Missing)
	}
}

// unsent ends why there is no start.
const unsent = "; nothing was sent"

func (p *presence) name() string {
	return fmt.Sprintf("shard %d (%s, pid %d)", p.Index, p.Host, p.PID)
}

// differs says what p has and shard 0 has not; "" = nothing that is known yet.
func (p *presence) differs(zero *presence) string {
	switch {
	case p.Version != zero.Version:
		return fmt.Sprintf("%s has version %s of fastreplay, and shard 0 %s", p.name(), p.Version, zero.Version)
	case p.Count != zero.Count:
		return fmt.Sprintf("%s has a count of %d shards, and shard 0 of %d", p.name(), p.Count, zero.Count)
	case p.Load == "" || zero.Load == "" || p.Load == zero.Load:
		return ""
	}
	list := []string{}
	both := maps.Clone(zero.About)
	maps.Copy(both, p.About)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if a, b := p.About[name], zero.About[name]; a != b && len(list) < 4 {
			list = append(list, fmt.Sprintf("%s %s, not %s", name, cmp.Or(a, "not given"), cmp.Or(b, "given")))
		}
	}
	if len(list) == 0 {
		list = append(list, "its trace has other content, or its servers said something else")
	}
	return p.name() + " has another load than shard 0: " + strings.Join(list, "; ")
}

// Name is the barrier's own, equal in all shards.
func (g *Group) Name() string { return fmt.Sprintf("%016x", g.barrier) }

// Ready says that this shard can send load, with what made it, and waits for the agreed start: instant 0 by the clock of shard 0, and by how
// much this machine's clock is ahead of that. Then clocks are compared until End.
func (g *Group) Ready(ctx context.Context, load string, about map[string]string) (at time.Time, ahead time.Duration, err error) {
	g.me.Load, g.me.About = load, about
	_ = json.NewEncoder(g.conn).Encode(&g.me) // if it fails, listen knows
	select {
	case at = <-g.agreed:
	case <-ctx.Done():
		return at, 0, context.Cause(ctx)
	}
	g.clock = g.newClock(at)
	if g.Leads() {
		g.samples = []Offset{{}}
	} else if g.compare(40); len(g.samples) > 0 {
		ahead = time.Duration(g.samples[0].OffsetNS)
		g.asking.Go(func() { g.compareOften(ctx) })
	}
	return at, ahead, nil
}

// newClock is this machine's wall clock since the agreed start, as if nobody set it: it goes on as the monotonic clock does.
func (g *Group) newClock(zero time.Time) *sched.Monotonic {
	clock := sched.NewMonotonic()
	clock.StartAtWall(zero.Add(-time.Duration(g.shiftNS)))
	return clock
}

const (
	between   = 3 * time.Millisecond // from one question to the next
	longest   = time.Second          // of all questions at a time: the start is times.lead ahead, however far away shard 0 is
	readingNS = 200                  // the error of two clocks' zeros, of which each is set to within 50 ns
)

// compare asks the leader for the time, n times. The answer that took the shortest way counts. As in NTP, the question leaves at t1 and
// comes at t2, and the answer leaves at t3 and comes at t4. The error is half of the time on both ways: how they share it is unknown. If
// the connection fails, nothing more is known. It takes a second at most.
func (g *Group) compare(n int) {
	var best Offset
	for began := g.clock.Now(); n > 0 && g.clock.Now()-began < int64(longest); n-- {
		_ = g.conn.SetDeadline(time.Now().Add(askTimeout))
		var w word
		t1 := g.clock.Now()
		if json.NewEncoder(g.conn).Encode(&presence{Asks: true}) != nil || g.in.Decode(&w) != nil {
			break
		}
		t4 := g.clock.Now()
		if o := (Offset{AtNS: t4, OffsetNS: (t1 - w.T2 + t4 - w.T3) / 2, ErrorNS: (t4-t1-(w.T3-w.T2))/2 + readingNS}); best.ErrorNS == 0 || o.ErrorNS < best.ErrorNS {
			best = o
		}
		time.Sleep(between)
	}
	if best.ErrorNS > 0 {
		g.samples = append(g.samples, best)
	}
}

// compareOften compares the clocks during a run.
func (g *Group) compareOften(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(g.times.sample/2 + rand.N(g.times.sample)):
			g.compare(8)
		}
	}
}

// End compares the clocks once more after a run, and returns what was found. The group's context ends.
func (g *Group) End() []Offset {
	if !g.Leads() {
		g.cancel(nil)
		g.asking.Wait()
		g.compare(40)
	}
	return g.samples
}

// Leave ends the shard's part. If it fails before the start, with err, the others learn why and do not start either. Shard 0 waits a
// little for the others, so that they can compare their clocks once more.
func (g *Group) Leave(err error) {
	if g == nil {
		return
	}
	g.cancel(nil)
	g.asking.Wait()
	if err != nil {
		g.me.Failed = strings.TrimSuffix(err.Error(), unsent)
		_ = json.NewEncoder(g.conn).Encode(&g.me)
	}
	g.close()
}

func (g *Group) close() {
	if g.conn != nil {
		_ = g.conn.Close()
	}
	if g.leader != nil {
		g.leader.close()
	}
}
