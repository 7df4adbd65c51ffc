package main

import (
	"fmt"
	"time"
)

// cut is a piece of the conversation trace.
type cut struct {
	scale    int
	duration time.Duration // wall time with the best mode
	others   time.Duration // with the other ones; 0 = not measured
}

func conversationCuts() []cut {
	return []cut{{1, 20 * time.Second, 0}, {10, 8 * time.Second, 0}, {60, 25 * time.Second, 6 * time.Second}}
}

func (c cut) name() string { return fmt.Sprintf("punctuality/conversation-x%d", c.scale) }

func conversationScenarios() []scenario {
	var all []scenario
	for _, c := range conversationCuts() {
		all = append(all, scenario{c.name(), fmt.Sprintf("the first %v of Mooncake's conversation trace at scale %d", c.duration, c.scale), c.measure})
	}
	return all
}

func (c cut) measure(r *round) error {
	path := r.conversation()
	if path == "" {
		r.skip(noConversation)
		return nil
	}
	m, err := r.serve(nil, "--itl", r.lasting(2*time.Millisecond).String()) // the longest answer takes 4 s
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }()
	var subjects []subject
	for i, mode := range r.modes() {
		d := c.duration
		if i > 0 {
			d = c.others
		}
		if d > 0 && (i == 0 || !r.quick) {
			subjects = append(subjects, subject{us(mode), func() error { return c.replay(r, mode, m.url, path, r.lasting(d)) }})
		}
	}
	return r.alternate(subjects...)
}

func (c cut) replay(r *round, m mode, url, path string, d time.Duration) error {
	o, err := r.replay(m.prefix, url, "--trace", path, "--scale", fmt.Sprint(c.scale), "--duration", d.String(), "--realtime", m.realtime, "--allow-warm")
	if err != nil {
		return err
	}
	r.putDrift(us(m), o)
	r.putClient(us(m), o)
	r.put(us(m), memoryAbove, bytes, float64(o.summary.Client.MaxRSSBytes)-1.1*float64(o.summary.Client.WireBytes))
	return nil
}
