package replay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/setup"
)

const (
	targetsEvery = time.Second // from one reading of the file of targets to the next
	mostSaid     = 64          // lines about what is wrong with it; a file may name thousands of dead servers
)

// targetWatch follows a file of targets during a run.
type targetWatch struct {
	r       *runner
	present map[string]bool // targets by their URLs, as results name them
	read    map[string]bool // those whose metrics were read, if those of any are
	said    map[string]bool // what was wrong, each once
	late    map[string]bool // named, and not there yet
	wanted  int             // how many are named
	changes []scrape.Event
}

// watchTargets begins to follow the file of targets, if there is one. end ends that, and returns what has changed.
func (r *runner) watchTargets(ctx context.Context) (end func() []scrape.Event) {
	if r.cfg.WatchTargets == "" {
		return func() []scrape.Event { return nil }
	}
	w := &targetWatch{
		r:       r,
		present: map[string]bool{},
		read:    map[string]bool{},
		said:    map[string]bool{},
		late:    map[string]bool{},
	}
	for _, url := range r.load.URLs() {
		w.present[url] = true
		w.read[url] = true
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		tick := time.NewTicker(targetsEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look(ctx)
			}
		}
	})
	return func() []scrape.Event {
		cancel()
		following.Wait()
		return w.changes
	}
}

// look reads the file, or looks up the name, and lets targets join and leave. A file without a server, or with anything
// wrong, changes nothing: it may be half written.
func (w *targetWatch) look(ctx context.Context) {
	urls, weights, err := setup.ReadTargets(ctx, w.r.cfg.WatchTargets, true)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.say("--targets: " + err.Error() + "; the targets stay as they are")
		return
	}
	wanted := map[string]bool{}
	before := len(w.changes)
	w.wanted = len(urls)
	for i, url := range urls {
		t, err := w.r.load.ParseTarget(url)
		read := func() {}
		if err == nil {
			wanted[t.URL] = true
			if w.present[t.URL] {
				continue
			}
			err = w.r.load.Probe(ctx, &t)
		}
		if err == nil && !w.read[t.URL] && !w.r.prepares() { // one that comes back is read on
			read = w.r.servers.look(w.r.load.Prober, &t) // before a request of ours changes what it counts
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.say(err.Error())
			if !w.late[t.URL] && t.URL != "" && len(w.late) < mostSaid {
				w.late[t.URL] = true
				w.changed(t.URL, scrape.Wanted)
			}
		case !w.r.run.Join(&t, weights[i]):
			w.say(t.URL + " cannot join: too many have joined, or its path is another")
		default:
			w.present[t.URL] = true
			delete(w.late, t.URL)
			w.changed(t.URL, scrape.Joined)
			w.read[t.URL] = w.read[t.URL] || !w.r.prepares()
			read()
		}
	}
	for url := range w.present {
		if !wanted[url] && w.r.run.Leave(url) {
			delete(w.present, url)
			w.changed(url, scrape.Left)
		}
	}
	if changes := w.changes[before:]; len(changes) > 0 {
		released := w.r.run.Replan()
		for i := range changes {
			changes[i].Released = released
		}
	}
}

func (w *targetWatch) changed(url, what string) {
	e := scrape.Event{Target: url, What: what, Wanted: w.wanted, Had: len(w.present)}
	e.AtS = float64(max(0, w.r.run.Clock().Now())) / 1e9
	w.changes = append(w.changes, e)
	w.r.alert("targets: %s %s", url, what)
}

// say says what is wrong, once.
func (w *targetWatch) say(text string) {
	text = fmt.Sprintf("%.300s", w.r.load.Prober.Secrets.Line(strings.TrimSpace(text)))
	if !w.said[text] && len(w.said) < mostSaid {
		w.said[text] = true
		w.r.alert("targets: %s", text)
	}
}
