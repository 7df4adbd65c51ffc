package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
)

// load is an open load of equal requests.
type load struct {
	rate    int    // requests/s
	arrival string // constant or poisson
	tokens  int    // of each prompt; bytesPerToken each
	seconds int
}

// Each answer has 20 tokens. 20 ms and 19 gaps of 9.5 ms make 200 ms, so a fifth of a second's requests are live.
const answerTokens = 20

var answerLatencies = []string{"--ttft", "20ms", "--itl", "9.5ms"}

// bytesPerToken is what the built-in token ids take in a body, comma included.
const bytesPerToken = 6

// mainLoad is the one of the bars, which the rival sends too. httpsLoad is a quarter of it. This machine does
// the handshakes and the encryption of both ends. At this rate both cores have time left, so what differs is the client
// and not the mock.
var (
	mainLoad  = load{2000, "constant", 3300, 6}
	httpsLoad = load{500, "constant", 3300, 6}
)

// loads are the main load and others in rate, spacing and size. Requests of 200 kB come at 100 requests/s, since the
// mock reads 20 MB/s beside the rest.
func loads() []load {
	return []load{mainLoad, {100, "poisson", 33_300, 3}, {1000, "constant", 3300, 2}, {1000, "poisson", 300, 2},
		{2000, "poisson", 3300, 2}, {5000, "constant", 300, 2}, {5000, "poisson", 300, 2}}
}

func (l load) name() string {
	return fmt.Sprintf("punctuality/%d-%s-%dkB", l.rate, l.arrival, (bytesPerToken*l.tokens+500)/1000)
}

// rows is how many requests a full run has; a quick one has a tenth.
func (l load) rows(b *lab) int {
	if b.quick {
		return max(l.rate*l.seconds/10, 20)
	}
	return l.rate * l.seconds
}

func (l load) trace(r *round) (string, error) {
	return r.trace(l.rows(r.lab), l.rate, l.tokens, answerTokens, "--arrival", l.arrival)
}

// measure replays the load in each mode, and lets the rival send it, all to one mock.
func (l load) measure(r *round) error {
	path, err := l.trace(r)
	if err != nil {
		return err
	}
	m, err := r.serve(answerLatencies...)
	if err != nil {
		return err
	}
	var subjects []subject
	for _, mode := range r.modes() {
		subjects = append(subjects, r.replaying(us(mode), mode, m.url, "--trace", path))
	}
	if l == mainLoad {
		thread := us(r.best()) + ", sender in a thread"
		subjects = append(subjects, r.replaying(thread, r.best(), m.url, "--trace", path, "--sender", "thread"))
		subjects = append(subjects, subject{rivalName, func() error {
			o, err := r.rival(m.url, path)
			if err == nil {
				r.putDrift(rivalName, o)
			}
			return err
		}})
	}
	return r.alternate(subjects...)
}

// replaying is a replay of which only the drift is noted.
func (r *round) replaying(who string, m mode, url string, args ...string) subject {
	return subject{who, func() error {
		_, err := r.measureDrift(who, m, url, args...)
		return err
	}}
}

// measureDrift replays in a mode and notes the drift.
func (r *round) measureDrift(who string, m mode, url string, args ...string) (*outcome, error) {
	o, err := r.replay(nil, url, append([]string{"--realtime", m.realtime}, args...)...)
	if err != nil {
		return nil, err
	}
	if !o.Client.SenderProcess && !slices.Contains(args, "thread") {
		r.skip("%s: its sender got no process of its own, only a thread", who)
	}
	r.putDrift(who, o)
	r.putClient(who, o)
	return o, nil
}

func runConversation(r *round) error {
	path := r.conversation()
	if path == "" {
		return nil
	}
	m, err := r.serve("--itl", r.lasting(2*time.Millisecond).String()) // the longest answer takes 4 s
	if err != nil {
		return err
	}
	best := r.best()
	o, err := r.measureDrift(us(best), best, m.url, "--trace", path, "--scale", "60",
		"--duration", r.lasting(25*time.Second).String(), "--allow-warm")
	if err == nil {
		r.put(us(best), "memory-above-wire-B", float64(o.Client.MaxRSSBytes)-1.1*float64(o.Client.WireBytes))
	}
	return err
}

const burstSize = 28

func runBurst(r *round) error {
	bursts := 20
	if r.quick {
		bursts = 3
	}
	path, err := r.trace(
		bursts*burstSize,
		5*burstSize,
		8300,
		4,
		"--burst",
		strconv.Itoa(burstSize),
		"--burst-every",
		strconv.Itoa(burstSize),
	)
	if err != nil {
		return err
	}
	m, err := r.serve("--ttft", "20ms")
	if err != nil {
		return err
	}
	var subjects []subject
	add := func(who string, mode mode, args ...string) {
		subjects = append(subjects, subject{who, func() error {
			o, err := r.measureDrift(who, mode, m.url, append(args, "--trace", path)...)
			if err != nil {
				return err
			}
			ratios, err := burstsOf(o.lines)
			r.put(who, "last-drift/writes-before", median(ratios))
			return err
		}})
	}
	for _, mode := range r.modes() {
		add(us(mode), mode)
	}
	add(us(r.best())+", two senders", r.best(), "--senders", "2")
	return r.alternate(subjects...)
}

// burstsOf divides, for each burst, the drift of the request that left last by the time that the writes before it took.
// The ratios ascend.
func burstsOf(lines []record.Record) (ratios []float64, err error) {
	groups := map[int64][]*record.Record{}
	for i := range lines {
		l := &lines[i]
		if l.SentNS == record.None || l.WrittenNS == record.None {
			return nil, fmt.Errorf("request %s of a burst was not sent whole (%s)", l.RequestID, l.Outcome)
		}
		groups[l.PlannedNS] = append(groups[l.PlannedNS], l)
	}
	for _, g := range groups {
		slices.SortFunc(g, func(a, b *record.Record) int { return int(a.SentNS - b.SentNS) })
		var writes int64
		for _, l := range g[:len(g)-1] {
			writes += l.WrittenNS - l.SentNS
		}
		if writes > 0 {
			ratios = append(ratios, float64(g[len(g)-1].DriftNS())/float64(writes))
		}
	}
	slices.Sort(ratios)
	return ratios, nil
}

// way is how a load is replayed: flags of its own for the client and for the mock.
type way struct {
	name       string
	ours, mock []string
}

// runHTTPS gives each a mock of its own, so that neither shares the machine with the other's.
func runHTTPS(r *round) error {
	ca := filepath.Join(r.work, "ca.pem")
	return r.eachWay(
		httpsLoad,
		way{name: "http"},
		way{"https", []string{"--ca-cert", ca}, []string{"--tls-self-signed", "--tls-ca", ca}},
	)
}

func runWindow(r *round) error {
	quarter := strconv.Itoa(mainLoad.rows(r.lab) * mainLoad.tokens * bytesPerToken / 4)
	return r.eachWay(
		mainLoad,
		way{name: "all prebuilt"},
		way{name: "a quarter in memory", ours: []string{"--max-memory", quarter}},
	)
}

// eachWay replays a load in several ways.
func (r *round) eachWay(l load, ways ...way) error {
	path, err := l.trace(r)
	if err != nil {
		return err
	}
	best := r.best()
	var subjects []subject
	for _, w := range ways {
		who := us(best) + ", " + w.name
		subjects = append(subjects, subject{who, func() error {
			m, err := r.serve(slices.Concat(answerLatencies, w.mock)...)
			if err != nil {
				return err
			}
			defer func() { _ = m.stop() }()
			o, err := r.measureDrift(who, best, m.url, append(w.ours, "--trace", path)...)
			if err != nil || !slices.Contains(w.ours, "--max-memory") {
				return err
			}
			b := o.BuildAhead
			if b == nil {
				return fmt.Errorf("summary.json has no build_ahead: everything was built before the start")
			}
			r.put(who, "room/wire", float64(b.WindowBytes)/float64(o.Client.WireBytes))
			r.put(who, "built-late", float64(b.Late))
			return nil
		}})
	}
	return r.alternate(subjects...)
}
