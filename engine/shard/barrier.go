package shard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// Shards ask, and the leader, which is in shard 0, answers: by HTTP over TLS. A shard says again and again what it is,
// on one connection. The leader answers as soon as something is decided, or after a while that nothing is. From the
// start on the shard asks for the time.
type (
	// hello is what a shard says of itself.
	hello struct {
		sched.Part
		Host    string
		PID     int
		Version string
		Load    string            // "" = it is not ready
		About   map[string][]byte // digests of what made the load
		Failed  string            // why it cannot start; "" = nothing is against it
	}
	// decision is what the leader answers.
	decision struct {
		Name    string    // of the barrier: a random number
		Missing string    // whom it waits for
		Start   time.Time // instant 0 by the clock of shard 0; zero = it is not agreed on
		Stop    string    // why the shard does not start; "" = it may
	}
)

const (
	helloPath  = "/hello"
	clockPath  = "/clock"
	askTimeout = 3 * time.Second // to connect, to prove the secret, to ask for the time
)

// The values of --late-start: what becomes of a shard that is not ready in time.
const (
	LateFail = "fail"
	LateJoin = "join"
)

// times are those of a barrier.
type times struct {
	look     time.Duration // how often a shard looks for shard 0, and how long its question is open
	lead     time.Duration // from shard 0's decision to the start: all know of it before
	patience time.Duration // how long a shard that is ready waits for others
	remind   time.Duration // how often it says so
	silence  time.Duration // after how long a shard without a sign of life is dead
	sample   time.Duration // how often clocks are compared during a run
	linger   time.Duration // how long shard 0 answers after its end, at most
}

// usual are the times of a run. A machine that is short of memory or cores may be silent for seconds and live; after 10
// s it counts as dead.
func usual() times {
	return times{look: 500 * time.Millisecond, lead: 4 * time.Second, patience: 10 * time.Minute,
		remind:  10 * time.Second,
		silence: 10 * time.Second, sample: 5 * time.Second, linger: 2 * time.Second}
}

// Config is what a shard brings to a barrier.
type Config struct {
	sched.Part
	Where   string       // a directory, or the URL of shard 0
	Version string       // of fastreplay
	Late    string       // LateFail or LateJoin
	Say     func(string) // prints where shard 0 listens, and whom a shard waits for
}

// Group is a shard's place among the others. Make it with Join. Call Ready once, End after a run, and Leave at last.
type Group struct {
	Config
	times  times
	place  place
	leader *leader         // nil but in shard 0
	client *http.Transport // to the leader; nil in shard 0
	name   string          // of the barrier
	cancel context.CancelCauseFunc
	agreed chan time.Time // the start

	me    atomic.Pointer[hello]
	heard chan struct{} // closed when hear has ended

	shiftNS  int64            // by which a test puts this machine's clock ahead
	clock    *sched.Monotonic // since the start
	wire     atomic.Pointer[stamped]
	samples  []Offset
	sampling sync.WaitGroup
}

// Join waits for shard 0 at a barrier. The context that it returns ends if a shard fails before the start; its cause
// says which, and why.
func Join(ctx context.Context, c Config) (*Group, context.Context, error) {
	return join(ctx, c, usual(), 0)
}

func join(ctx context.Context, c Config, t times, shiftNS int64) (*Group, context.Context, error) {
	g := &Group{
		Config:  c,
		times:   t,
		agreed:  make(chan time.Time, 1),
		heard:   make(chan struct{}),
		shiftNS: shiftNS,
	}
	host, _ := os.Hostname()
	g.me.Store(&hello{Part: c.Part, Host: host, PID: os.Getpid(), Version: c.Version})
	joined, cancel := context.WithCancelCause(ctx)
	g.cancel = cancel
	first, err := g.enter(ctx)
	if err != nil {
		g.close()
		return nil, ctx, fmt.Errorf("--start-barrier %s: %w", c.Where, err)
	}
	go g.hear(joined, first)
	return g, joined, nil
}

// enter makes the leader, or looks for it until it answers, and returns its first answer.
func (g *Group) enter(ctx context.Context) (first *decision, err error) {
	if g.place, err = parsePlace(g.Where); err != nil {
		return nil, err
	}
	if g.Leads() {
		g.leader, err = lead(g)
		return new(decision), err
	}
	began := time.Now()
	said := time.Now()
	known := time.Now() // when there was last no wrong secret
	for {
		first, err = g.call(ctx)
		if !errors.Is(err, errSecret) || g.place.address == "" {
			known = time.Now()
		}
		switch {
		case err == nil:
			g.name = first.Name
			return first, nil
		case errors.Is(err, errOver):
			return nil, err
		case time.Since(known) > g.times.silence: // until then a stranger there may go, and shard 0 come
			return nil, fmt.Errorf("%w: give this shard and shard 0 the same %s", err, SecretVariable)
		case time.Since(began) > g.times.patience:
			return nil, fmt.Errorf("shard 0 did not come within %v: %w", g.times.patience, err)
		case time.Since(said) > g.times.remind:
			g.Say("waiting for shard 0 at " + g.Where + ": " + err.Error())
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(g.times.look):
		}
	}
}

// call tries the addresses of the leader, and keeps the connection on which it answers.
func (g *Group) call(ctx context.Context) (*decision, error) {
	addresses, err := g.place.find()
	if err != nil {
		return nil, err
	}
	proof, err := identity(g.place.secret)
	if err != nil {
		return nil, err
	}
	err = errors.New("it has no address")
	for _, address := range addresses {
		if ctx.Err() != nil {
			break
		}
		dialer := net.Dialer{Timeout: askTimeout}
		g.wire.Store(nil)
		g.client = &http.Transport{ // without a proxy
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				if g.wire.Load() != nil { // to shard 0 another connection is another shard
					return nil, errors.New("the connection to shard 0 ended")
				}
				conn, err := dialer.DialContext(ctx, network, address)
				g.wire.Store(&stamped{Conn: conn})
				return g.wire.Load(), err
			},
			TLSClientConfig:        proof,
			TLSHandshakeTimeout:    askTimeout,
			MaxConnsPerHost:        1,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
		}
		d, failed := g.meet(g.times.silence)
		if failed == nil {
			return d, nil
		}
		g.client.CloseIdleConnections()
		err = failed
	}
	if g.place.address == "" {
		err = fmt.Errorf("%w; if another run has used it, give this one a directory of its own", err)
	}
	return nil, err
}

// meet says to the leader what this shard is, and returns what it answers.
func (g *Group) meet(timeout time.Duration) (d *decision, err error) {
	if g.leader != nil {
		return g.leader.meet(context.Background(), nil, g.me.Load()), nil
	}
	err = g.ask(helloPath, timeout, g.me.Load(), &d)
	return d, err
}

// ask asks the leader one question.
func (g *Group) ask(path string, timeout time.Duration, said, answer any) error {
	body, _ := json.Marshal(said)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shard-0"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := g.client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("shard 0 answers %s: %.200q", response.Status, text)
	}
	return cmp.Or(err, json.Unmarshal(text, answer))
}

// hear does what the leader decides, and asks again and again, until the start, or until there can be none.
func (g *Group) hear(ctx context.Context, d *decision) {
	defer close(g.heard)
	var err error
	for said := time.Now(); ctx.Err() == nil; d, err = g.meet(g.times.silence) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			g.cancel(fmt.Errorf("shard 0 gave no sign of life for %v before the start%s", g.times.silence, unsent))
		case err != nil:
			g.cancel(errors.New("shard 0 ended before the start" + unsent))
		case d.Stop != "":
			g.cancel(errors.New(d.Stop + unsent))
		case !d.Start.IsZero():
			g.agreed <- d.Start
			return
		case g.me.Load().Load != "" && time.Since(said) > g.times.remind:
			g.Say("waiting for the other shards" + d.Missing)
			said = time.Now()
		}
	}
}

// unsent ends why there is no start.
const unsent = "; nothing was sent"

func (p *hello) name() string {
	return fmt.Sprintf("shard %d (%s, pid %d)", p.Index, p.Host, p.PID)
}

// differs says what p has and shard 0 has not; "" = nothing that is known yet.
func (p *hello) differs(zero *hello) string {
	switch {
	case p.Version != zero.Version:
		return fmt.Sprintf("%s has version %s of fastreplay, and shard 0 %s", p.name(), p.Version, zero.Version)
	case p.Count != zero.Count:
		return fmt.Sprintf("%s has a count of %d shards, and shard 0 of %d", p.name(), p.Count, zero.Count)
	case p.Load == "" || zero.Load == "" || p.Load == zero.Load:
		return ""
	}
	both := maps.Clone(zero.About)
	maps.Copy(both, p.About)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if !bytes.Equal(p.About[name], zero.About[name]) {
			list = append(list, name)
		}
	}
	what := strings.Join(list[:min(len(list), 4)], ", ")
	return p.name() + " has another load than shard 0: it differs in " +
		cmp.Or(what, "the content of its trace, or in what its servers said")
}

// Name is the barrier's own, equal in all shards.
func (g *Group) Name() string { return g.name }

// Ready says that this shard can send load, with what made it, and waits for the agreed start. It returns instant 0 by
// the clock of shard 0, and by how much this machine's clock is ahead of that. Then clocks are compared until End.
func (g *Group) Ready(
	ctx context.Context, load string, about map[string]string,
) (at time.Time, ahead time.Duration, err error) {
	me := *g.me.Load()
	me.Load = load
	me.About = map[string][]byte{}
	for name, value := range about {
		me.About[name] = digest(g.place.secret, name+"\x00"+value)
	}
	g.me.Store(&me)
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
		g.sampling.Go(func() { g.compareOften(ctx) })
	}
	return at, ahead, nil
}

// End compares the clocks once more after a run, and returns what was found. The group's context ends.
func (g *Group) End() []Offset {
	if !g.Leads() {
		g.cancel(nil)
		g.sampling.Wait()
		g.compare(40)
		g.client.CloseIdleConnections() // shard 0 need not wait for this one any more
	}
	return g.samples
}

// Leave ends the shard's part, in a few seconds whatever others do. If it fails before the start, with err, the others
// learn why and do not start either. Shard 0 waits a little for the others, so that they can compare their clocks once
// more.
func (g *Group) Leave(err error) {
	if g == nil {
		return
	}
	g.cancel(nil)
	g.sampling.Wait()
	select {
	case <-g.heard:
	case <-time.After(askTimeout): // shard 0 does not answer
		err = nil
	}
	if err != nil && g.clock == nil {
		me := *g.me.Load()
		me.Failed = fmt.Sprintf("%.2000s", strings.TrimSuffix(err.Error(), unsent))
		g.me.Store(&me)
		_, _ = g.meet(askTimeout) // if it fails, the leader notices that this shard has gone
	}
	g.close()
}

func (g *Group) close() {
	if g.client != nil {
		g.client.CloseIdleConnections()
	}
	if g.leader != nil {
		g.leader.close()
	}
}
