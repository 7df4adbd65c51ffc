package mockllm

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// adapters are the LoRA adapters of a server. So many of them are loaded at a time. A further one takes the place of
// the least recently used one, among those that no request uses. As in vLLM (vllm/v1/core/sched/scheduler.py), a
// request whose adapter has no place waits, and those behind it go first.
type adapters struct {
	names   []string
	room    int           // that are loaded at most; 0 = all
	loadNS  int64         // how long it takes to load one
	loaded  []*adapter    // in the order of their use, the latest last
	begunNS int64         // when the latest of their requests began: no other begins at that instant, or earlier
	told    []adapterTold // what /metrics has told of them
}

type adapter struct {
	name    string
	users   int   // requests that run with it
	readyNS int64 // when it is loaded
}

// adapterTold is who used adapters and who waited for one, and when that was last so. vLLM's page keeps all that were.
type adapterTold struct {
	running, waiting string
	at               time.Time
}

// has reports whether there is an adapter of that name.
func (a *adapters) has(name string) bool { return slices.Contains(a.names, name) }

// find is the place of a loaded adapter; -1 if it is not loaded.
func (a *adapters) find(name string) int {
	return slices.IndexFunc(a.loaded, func(l *adapter) bool { return l.name == name })
}

// fits reports whether a request for a model can begin: the adapter is loaded, or has a place.
func (a *adapters) fits(model string) bool {
	return !a.has(model) || a.room == 0 || len(a.loaded) < a.room || a.find(model) >= 0 ||
		slices.ContainsFunc(a.loaded, func(l *adapter) bool { return l.users == 0 })
}

// begin lets a request that fits use its adapter from the instant now on. It returns how long the adapter still takes
// to load.
func (a *adapters) begin(model string, now int64) (waitNS int64) {
	if !a.has(model) {
		return 0
	}
	a.begunNS = now
	l := &adapter{name: model, readyNS: now + a.loadNS}
	if at := a.find(model); at >= 0 {
		l = a.loaded[at]
		a.loaded = slices.Delete(a.loaded, at, at+1)
	} else if a.room > 0 && len(a.loaded) == a.room {
		idle := slices.IndexFunc(a.loaded, func(l *adapter) bool { return l.users == 0 })
		a.loaded = slices.Delete(a.loaded, idle, idle+1)
	}
	l.users++
	a.loaded = append(a.loaded, l)
	return max(0, l.readyNS-now)
}

// end ends the use of a request.
func (a *adapters) end(model string) {
	if at := a.find(model); at >= 0 {
		a.loaded[at].users--
	}
}

// tell notes who uses adapters and who waits for one.
func (a *adapters) tell(queue []*reply) {
	var running, waiting []string
	for _, l := range a.loaded {
		if l.users > 0 {
			running = append(running, l.name)
		}
	}
	for _, r := range queue {
		if a.has(r.p.model) && !slices.Contains(waiting, r.p.model) {
			waiting = append(waiting, r.p.model)
		}
	}
	now := adapterTold{strings.Join(running, ","), strings.Join(waiting, ","), time.Now()}
	a.told = append(slices.DeleteFunc(a.told, func(t adapterTold) bool {
		return t.running == now.running && t.waiting == now.waiting
	}), now)
	const most = 100
	a.told = a.told[max(0, len(a.told)-most):]
}

// append appends what vLLM's /metrics says of LoRA adapters (vllm/v1/metrics/loggers.py): the value is the time at
// which it was last so.
func (a *adapters) append(dst []byte) []byte {
	dst = append(dst, "# HELP vllm:lora_requests_info Running stats on LoRA requests.\n"+
		"# TYPE vllm:lora_requests_info gauge\n"...)
	for _, t := range a.told {
		dst = fmt.Appendf(dst, `vllm:lora_requests_info{max_lora="%d",running_lora_adapters="%s",`+
			`waiting_lora_adapters="%s"} %.3f`+"\n",
			a.room, t.running, t.waiting, float64(t.at.UnixMilli())/1e3)
	}
	return dst
}
