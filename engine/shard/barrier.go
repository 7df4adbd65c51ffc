package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/engine/wire"
)

// The entries of a barrier.
const (
	beginEntry = "begin"  // a beginning, by shard 0, at once
	shardEntry = "shard-" // and the index: a presence, by that shard, again and again until the start
	startEntry = "start"  // an agreement, by shard 0
	stopEntry  = "stop"   // why nobody starts, by any shard
)

type beginning struct {
	Barrier   uint64 // a random number
	Zero      presence
	Addresses []netip.AddrPort // where shard 0 answers for its clock
	At        time.Time
}

// presence is what a shard says of itself.
type presence struct {
	Process uint64 // a random number
	Host    string
	PID     int
	Version string
	Count   int
	Beat    int               // grows while the process lives
	Load    string            // "" = it is not ready
	About   map[string]string // what made the load
}

type agreement struct {
	At   time.Time // instant 0 by the clock of shard 0
	Zero presence
}

// The values of --late: what becomes of a shard that is not ready in time.
const (
	LateFail = "fail"
	LateJoin = "join"
)

// times are those of a barrier.
type times struct {
	look     time.Duration // how often a shard looks at the board, and shows that it lives
	lead     time.Duration // from shard 0's decision to the start: all see it before
	silence  time.Duration // until a shard without a sign of life is dead: NFS shows files up to 60 s late
	patience time.Duration // how long a shard that is ready waits for others
	remind   time.Duration // how often it says so
	sample   time.Duration // how often clocks are compared during a run
	linger   time.Duration // how long shard 0 answers after its end
}

func usualTimes() times {
	return times{500 * time.Millisecond, 4 * time.Second, 90 * time.Second, 10 * time.Minute, 10 * time.Second, 5 * time.Second, 2 * time.Second}
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
	times  times
	board  board
	begin  *beginning
	cancel context.CancelCauseFunc
	looked chan struct{} // closed after the last look

	mu      sync.Mutex // of what looks use
	me      presence
	started *agreement
	readyAt time.Time
	missing string       // whom shard 0 waits for
	last    time.Time    // when the board answered last
	lives   map[int]life // of the other shards, known to shard 0

	clock   *clock
	samples []Offset
	mute    string // why clocks were not compared; "" = they were
	asking  sync.WaitGroup
	ended   time.Time // the run
}

type life struct {
	beat int
	at   time.Time
}

// Join waits for shard 0 at a barrier. The context that it returns ends if a shard fails before the start; its cause says which, and why.
func Join(ctx context.Context, h Hello) (*Group, context.Context, error) {
	return join(ctx, h, usualTimes(), clockShift)
}

func join(ctx context.Context, h Hello, t times, shiftNS int64) (_ *Group, _ context.Context, err error) {
	g := &Group{Hello: h, times: t, looked: make(chan struct{}), last: time.Now(), lives: map[int]life{}, clock: &clock{shiftNS: shiftNS}}
	g.me = presence{Process: rand.Uint64(), PID: os.Getpid(), Version: h.Version, Count: h.Count}
	g.me.Host, _ = os.Hostname()
	if g.board, err = openBoard(h.Where, h.Part); err == nil {
		g.clock.Datagrams, err = wire.ListenDatagrams()
	}
	if err == nil && h.Leads() {
		err = g.open()
	} else if err == nil {
		err = g.enter(ctx)
	}
	if err != nil {
		g.close()
		return nil, ctx, fmt.Errorf("--start-barrier %s: %w", h.Where, err)
	}
	g.clock.barrier = g.begin.Barrier
	ctx, g.cancel = context.WithCancelCause(ctx)
	go g.watch(ctx)
	return g, ctx, nil
}

// open begins a barrier, as shard 0.
func (g *Group) open() error {
	old, err := read[beginning](g.board, beginEntry)
	if old != nil {
		return fmt.Errorf("the barrier of another run is there, of %s: give each run a directory of its own", old.At.Format(time.RFC3339))
	}
	g.begin = &beginning{Barrier: rand.Uint64(), Zero: g.me, Addresses: ownAddresses(g.clock.LocalAddr()), At: time.Now().UTC()}
	return errors.Join(err, post(g.board, beginEntry, g.begin))
}

// enter waits for shard 0.
func (g *Group) enter(ctx context.Context) (err error) {
	for began, said := time.Now(), time.Now(); ; {
		if g.begin, err = read[beginning](g.board, beginEntry); g.begin != nil {
			break
		}
		why := "it has not begun"
		if err != nil {
			why = err.Error()
		}
		if time.Since(began) > g.times.patience {
			return fmt.Errorf("shard 0 did not come within %v: %s", g.times.patience, why)
		}
		if time.Since(said) > g.times.remind {
			g.Say("waiting for shard 0 at " + g.Where + ": " + why)
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(g.times.look):
		}
	}
	if why := g.me.differs(&g.begin.Zero); why != "" {
		return g.stop(fmt.Sprintf("%s has %s", g.me.name(g.Index), why))
	}
	other, err := read[presence](g.board, g.entry())
	if other != nil {
		return g.twice(other)
	}
	return err
}

// unsent ends why there is no start.
const unsent = "; nothing was sent"

// stop tells all shards why nobody starts, and returns it as an error.
func (g *Group) stop(why string) error {
	why = strings.TrimSuffix(why, unsent)
	return errors.Join(errors.New(why+unsent), post(g.board, stopEntry, why))
}

func (g *Group) twice(other *presence) error {
	return fmt.Errorf("%s is there already: two shards have one index, or it was started again; a barrier serves one start", other.name(g.Index))
}

func (g *Group) entry() string { return shardEntry + strconv.Itoa(g.Index) }

func (p *presence) name(index int) string {
	return fmt.Sprintf("shard %d (%s, pid %d)", index, p.Host, p.PID)
}

// differs says what p has and shard 0 has not; "" = nothing that is known yet.
func (p *presence) differs(zero *presence) string {
	switch {
	case p.Version != zero.Version:
		return fmt.Sprintf("version %s of fastreplay, and shard 0 %s", p.Version, zero.Version)
	case p.Count != zero.Count:
		return fmt.Sprintf("a count of %d shards, and shard 0 of %d", p.Count, zero.Count)
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
	return "another load than shard 0: " + strings.Join(list, "; ")
}

// watch looks at the board until the start, or until there can be none.
func (g *Group) watch(ctx context.Context) {
	defer close(g.looked)
	for ctx.Err() == nil {
		done, err := g.look()
		if err != nil {
			g.cancel(err)
		}
		if done || err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(g.times.look):
		}
	}
}

// look shows that this shard lives, and reads what the others say. It reports whether the start is agreed on.
func (g *Group) look() (done bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why := ""
	own, err := read[presence](g.board, g.entry())
	if own != nil && own.Process != g.me.Process {
		return false, g.twice(own)
	}
	if err == nil {
		g.me.Beat++
		err = post(g.board, g.entry(), g.me)
	}
	if err == nil {
		g.started, err = read[agreement](g.board, startEntry)
	}
	if err == nil && g.started == nil {
		var stopped *string
		if stopped, err = read[string](g.board, stopEntry); stopped != nil {
			return false, errors.New(*stopped + unsent)
		}
	}
	if err == nil && g.started == nil && g.Leads() {
		why, err = g.gather()
	}
	switch {
	case why != "":
		return false, g.stop(why)
	case err == nil:
		g.last = time.Now()
	case time.Since(g.last) > g.times.silence:
		return false, fmt.Errorf("the barrier at %s is silent since %v: %w; nothing was sent", g.Where, g.times.silence, err)
	}
	return g.started != nil, nil
}

// gather is shard 0's look at the others. If all are ready it agrees on the start; why says that there can be none.
func (g *Group) gather() (why string, err error) {
	var absent, busy []string
	for i := 1; i < g.Count; i++ {
		p, err := read[presence](g.board, shardEntry+strconv.Itoa(i))
		if err != nil {
			return "", err
		}
		if p == nil {
			absent = append(absent, strconv.Itoa(i))
			continue
		}
		if differs := p.differs(&g.me); differs != "" {
			return p.name(i) + " has " + differs, nil
		}
		if g.lives[i].beat != p.Beat {
			g.lives[i] = life{p.Beat, time.Now()}
		} else if time.Since(g.lives[i].at) > g.times.silence {
			return fmt.Sprintf("%s gave no sign of life for %v", p.name(i), g.times.silence), nil
		}
		if p.Load == "" {
			busy = append(busy, strconv.Itoa(i))
		}
	}
	g.missing = ""
	for state, shards := range map[string][]string{"not ready": busy, "not there": absent} {
		if len(shards) > 0 {
			g.missing += "; " + state + ": shard " + strings.Join(shards, ", ")
		}
	}
	late := time.Since(g.readyAt) > g.times.patience
	switch {
	case g.me.Load == "" || g.missing != "" && !late:
		return "", nil
	case g.missing != "" && g.Late == LateFail:
		return fmt.Sprintf("shards are missing %v after shard 0 was ready%s", g.times.patience, g.missing), nil
	}
	a := agreement{g.now().Add(g.times.lead).UTC(), g.me}
	if err = post(g.board, startEntry, a); err == nil {
		g.started = &a
	}
	return "", err
}

func (g *Group) now() time.Time { return time.Now().Add(time.Duration(g.clock.shiftNS)) }

// Name is the barrier's own, equal in all shards.
func (g *Group) Name() string { return fmt.Sprintf("%016x", g.begin.Barrier) }

// Start is what the shards agreed on.
type Start struct {
	At    time.Time     // instant 0 by the clock of shard 0
	Ahead time.Duration // of this machine's clock before that of shard 0; 0 if it is not known
	Local time.Time     // instant 0 by this machine's clock
	Mute  string        // why Ahead is not known; "" = it is
}

// Ready says that this shard can send load, with what made it, and waits for the agreed start; then clocks are compared until End.
func (g *Group) Ready(ctx context.Context, load string, about map[string]string) (s Start, err error) {
	g.mu.Lock()
	g.me.Load, g.me.About, g.readyAt = load, about, time.Now()
	g.mu.Unlock()
	remind := time.NewTicker(g.times.remind)
	defer remind.Stop()
	for waits := true; waits; {
		select {
		case <-g.looked:
			waits = false
		case <-remind.C:
			g.mu.Lock()
			g.Say("waiting for the other shards" + g.missing)
			g.mu.Unlock()
		}
	}
	if g.started == nil {
		return s, context.Cause(ctx)
	}
	if differs := g.me.differs(&g.started.Zero); differs != "" {
		return s, fmt.Errorf("%s has %s; nothing was sent", g.me.name(g.Index), differs)
	}
	s.At = g.started.At
	g.clock.begin(s.At)
	if g.Leads() {
		g.samples = []Offset{{}}
		go g.clock.serve()
	} else if o, err := g.clock.find(g.begin.Addresses); err != nil {
		g.mute, s.Mute = err.Error(), err.Error()
	} else {
		g.samples, s.Ahead = []Offset{o}, time.Duration(o.OffsetNS)
		g.asking.Go(func() { g.compare(ctx) })
	}
	s.Local = s.At.Add(s.Ahead - time.Duration(g.clock.shiftNS))
	return s, nil
}

// compare compares the clocks during a run, less often as it grows long: 500 times in 40 minutes, 2,000 times in a day.
func (g *Group) compare(ctx context.Context) {
	for {
		longer := time.Since(g.started.At) / 500
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(g.times.sample, longer)/2 + rand.N(g.times.sample)):
		}
		if o, err := g.clock.compare(8); err == nil {
			g.samples = append(g.samples, o)
		}
	}
}

// End compares the clocks once more after a run, and returns what was found, or why nothing was. The group's context ends.
func (g *Group) End() (clock []Offset, unknown string) {
	g.ended = time.Now()
	if g.Leads() || g.mute != "" {
		return g.samples, g.mute
	}
	g.cancel(nil)
	g.asking.Wait()
	if o, err := g.clock.compare(40); err == nil {
		g.samples = append(g.samples, o)
	}
	return g.samples, ""
}

// Leave ends the shard's part. If it fails before the start, with err, the others learn why and do not start either. Shard 0 stays
// until they have learnt it, or have compared their clocks once more.
func (g *Group) Leave(err error) {
	if g == nil {
		return
	}
	g.cancel(nil)
	<-g.looked
	g.asking.Wait()
	stay := g.times.linger
	if g.ended.IsZero() {
		g.ended = time.Now()
	}
	if g.started == nil {
		if other, _ := read[string](g.board, stopEntry); err != nil && other == nil {
			_ = g.stop(fmt.Sprintf("%s failed before the start: %v", g.me.name(g.Index), err))
		}
		stay = 3 * g.times.look
	}
	if g.Leads() {
		time.Sleep(stay - time.Since(g.ended))
	}
	g.close()
}

func (g *Group) close() {
	if g.board != nil {
		g.board.close()
	}
	if g.clock.Datagrams != nil {
		_ = g.clock.Close()
	}
}
