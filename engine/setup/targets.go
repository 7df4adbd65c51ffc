package setup

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// WatchPrefix stands before the name of a file of targets that is read again during the run.
const WatchPrefix = "watch:"

// DNSPrefix stands before HOST:PORT. Each address of the name is a target, and it is looked up again during the run.
const DNSPrefix = "dns:"

// spareTargets is how many targets may join during a run.
const spareTargets = 16

// mostTargets bounds a file of targets in bytes.
const mostTargets = 1 << 20

// ReadTargets reads a file of targets: a URL on each line, and perhaps its weight; or it looks up a name behind
// DNSPrefix. If a file is read again and again, it must be a plain one: the run would wait for a pipe without end.
func ReadTargets(ctx context.Context, name string, again bool) (urls []string, weights []float64, err error) {
	if host, ok := strings.CutPrefix(name, DNSPrefix); ok {
		if urls, err = probe.LookUp(ctx, host); err != nil {
			return nil, nil, err
		}
		return urls, slices.Repeat([]float64{1}, len(urls)), nil
	}
	if info, err := os.Stat(name); err == nil && again && !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is a pipe, a device or a directory; want a file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostTargets+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > mostTargets {
		return nil, nil, fmt.Errorf("%s has more than %d bytes; want a URL on each line", name, mostTargets)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		weight := 1.0
		if len(fields) > 1 {
			weight, err = strconv.ParseFloat(fields[1], 64)
		}
		if err != nil || len(fields) > 2 || !(weight > 0) || math.IsInf(weight, 0) {
			return nil, nil, fmt.Errorf("%s:%d: want a URL and perhaps a weight above 0 on each line", name, number)
		}
		urls = append(urls, fields[0])
		weights = append(weights, weight)
	}
	if len(urls) == 0 {
		return nil, nil, fmt.Errorf("%s: no server in it; want a URL on each line", name)
	}
	return urls, weights, nil
}

// ParseTarget reads the URL of a target as those of the run.
func (p *Prepared) ParseTarget(url string) (t workload.Target, err error) {
	if t, err = workload.ParseTarget(url, p.Builder.Backend.Path()); err == nil {
		t.PostTo(p.o.Endpoint)
	}
	return t, err
}

// Probe finds a target that is to join, and whether it accepts connections.
func (p *Prepared) Probe(ctx context.Context, t *workload.Target) error {
	own := *p.Prober
	own.Targets = []workload.Target{*t}
	err := probe.Resolve(ctx, own.Targets)
	if err == nil && !p.o.NoProbe {
		_, err = own.Alive(ctx)
	}
	*t = own.Targets[0]
	return err
}
