package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// load is an open load of equal requests.
type load struct {
	rate    int    // requests/s
	arrival string // constant or poisson
	tokens  int    // of each prompt; bytesPerToken each
	seconds int
	rivals  bool
}

// Each answer has 20 tokens: 20 ms and 19 gaps of 9.5 ms make 200 ms, so that a fifth of a second's requests are live.
const (
	answerTokens = 20
	answerTTFT   = 20 * time.Millisecond
	answerITL    = 9500 * time.Microsecond
)

// laneThread is the value of --lane for a lane in fastreplay's own process.
const laneThread = "thread"

// bytesPerToken is what the built-in token ids take in a body, comma included.
const bytesPerToken = 6

// mainLoad is the one of the bars.
var mainLoad = load{rate: 2000, arrival: "constant", tokens: 3300, seconds: 6, rivals: true}

// otherLoads vary rate, spacing and size. 200 kB go with 100 requests/s: 20 MB/s is what the mock reads beside the rest.
func otherLoads() []load {
	return []load{
		{rate: 100, arrival: "poisson", tokens: 33_300, seconds: 3},
		{rate: 1000, arrival: "constant", tokens: 3300, seconds: 2},
		{rate: 1000, arrival: "poisson", tokens: 300, seconds: 2},
		{rate: 2000, arrival: "poisson", tokens: 3300, seconds: 2},
		{rate: 5000, arrival: "constant", tokens: 300, seconds: 2},
		{rate: 5000, arrival: "poisson", tokens: 300, seconds: 2},
	}
}

func (l load) name() string {
	return fmt.Sprintf("punctuality/%d-%s-%dkB", l.rate, l.arrival, (bytesPerToken*l.tokens+500)/1000)
}

// streams is how many answers are live on average.
func (l load) streams() int { return l.rate / 5 }

// rows is how many requests a full run has; a quick one has a tenth.
func (l load) rows(b *lab) int {
	all := l.rate * l.seconds
	if b.quick {
		return max(all/10, 20)
	}
	return all
}

func (l load) gen(rows int) []string {
	return []string{"--rows", strconv.Itoa(rows), "--rate", strconv.Itoa(l.rate), "--arrival", l.arrival,
		"--input-tokens", strconv.Itoa(l.tokens), "--output-tokens", strconv.Itoa(answerTokens), "--seed", "1"}
}

func (l load) mock() []string {
	return []string{"--ttft", answerTTFT.String(), "--itl", answerITL.String()}
}

func punctualityScenarios() []scenario {
	all := []scenario{mainLoad.scenario()}
	for _, l := range otherLoads() {
		all = append(all, l.scenario())
	}
	return append(all, conversationScenarios()...)
}

func (l load) scenario() scenario {
	about := fmt.Sprintf("%d requests/s, %s, about %d live streams", l.rate, l.arrival, l.streams())
	if l.rivals {
		about += "; time.Sleep + goroutine + fasthttp and net/http beside it"
	}
	return scenario{l.name(), about, l.measure}
}

// measure replays the load in each mode, and lets the rivals send it, all to one mock.
func (l load) measure(r *round) error {
	path, err := r.trace(l.gen(l.rows(r.lab))...)
	if err != nil {
		return err
	}
	m, err := r.serve(nil, l.mock()...)
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }()
	var subjects []subject
	modes := r.modes()
	if r.quick && !l.rivals {
		modes = modes[:1]
	}
	add := func(who string, in mode, args ...string) {
		subjects = append(subjects, subject{who, func() error {
			_, err := r.measureDrift(who, in, m.url, append(args, "--trace", path)...)
			return err
		}})
	}
	for _, mode := range modes {
		add(us(mode), mode)
	}
	if l.rivals && r.has("--lane") {
		add(us(modes[0])+", lane in a thread", modes[0], "--lane", laneThread)
	}
	if l.rivals {
		for _, kind := range rivalKinds() {
			subjects = append(subjects, subject{rivalName(kind), func() error {
				o, err := r.rival(kind, m.url, path)
				if err == nil {
					r.putDrift(rivalName(kind), o)
				}
				return err
			}})
		}
	}
	return r.alternate(subjects...)
}

// measureDrift replays in a mode and notes the drift.
func (r *round) measureDrift(who string, m mode, url string, args ...string) (*outcome, error) {
	o, err := r.replay(m.prefix, url, append([]string{"--realtime", m.realtime}, args...)...)
	if err != nil {
		return nil, err
	}
	if !o.summary.Client.LaneProcess && !slices.Contains(args, laneThread) {
		r.skip("%s: its lane got no process of its own, only a thread", who)
	}
	r.putDrift(who, o)
	r.putClient(who, o)
	return o, nil
}
