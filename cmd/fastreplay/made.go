package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// openTraces reads the traces, or makes the one that is described.
func (o *options) openTraces() (*trace.Trace, error) {
	spec, made := strings.CutPrefix(o.traces[0], compat.Made)
	if !made {
		return trace.OpenAll(o.traces, o.read)
	}
	if len(o.traces) > 1 {
		return nil, fmt.Errorf("--trace %s%s: a trace that is made stands alone", compat.Made, spec)
	}
	t, err := madeTrace(spec, o.seed, o.read)
	if err != nil {
		return nil, fmt.Errorf("--trace %s%s: %w", compat.Made, spec, err)
	}
	return t, nil
}

// madeTrace makes a trace of KEY=VALUE,…; the keys are flags of `fastreplay gen`. Without a rate no row says when it leaves. It is
// written and read, so that all options of reading are as for a file.
func madeTrace(spec string, seed uint64, read trace.Options) (*trace.Trace, error) {
	g := newGeneration()
	f := pflag.NewFlagSet("gen", pflag.ContinueOnError)
	g.addFlags(f)
	for pair := range strings.SplitSeq(spec, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if flag := f.Lookup(key); !ok || flag == nil || key == "output" || key == "format" {
			return nil, fmt.Errorf("%q: want KEY=VALUE with a flag of `fastreplay gen`, such as rows=100,input-tokens=1024,output-tokens=128", pair)
		}
		if err := f.Set(key, value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, compat.Plain(err))
		}
	}
	if !f.Changed("seed") {
		g.Seed = seed
	}
	t, err := g.make(f.Changed("burstiness"))
	if err != nil {
		return nil, err
	}
	t.Untimed = !f.Changed("rate")
	var rows bytes.Buffer
	if err := trace.Write(&rows, t, t.Format); err != nil {
		return nil, err
	}
	if read.Format != "" && read.Format != t.Format {
		return nil, errors.New("--format is about a file")
	}
	read.Format, read.BlockTokens = t.Format, t.BlockTokens
	return trace.Read(&rows, compat.Made+spec, read)
}
