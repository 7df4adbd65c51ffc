package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
)

// probed is what the servers said before the start.
type probed struct {
	model   string
	context int    // tokens that a prompt and its output may have together, at every target; 0 = unknown
	salt    string // "" where none is sent
	flushed bool   // the servers can flush; done again just before the start
}

// unprobedModel is the model's name where nobody gave one and nobody may be asked.
const unprobedModel = "model"

// probe asks the servers what the run must know: that they live, the model, the overhead, and how to start cold.
func (r *replay) probe(ctx context.Context) error {
	r.probed.model = r.o.model
	if r.o.cold == probe.ColdSalt && r.verbatims.onlyPayloads() {
		return errors.New("--cold salt: bodies are sent as they are, without a cache_salt; give --cold flush or off, or put one into each with --extra-inputs cache_salt:… and --cold off")
	}
	if r.o.noProbe || r.o.dryRun {
		r.skipProbe()
		return nil
	}
	notes, err := r.prober.Alive(ctx)
	if err != nil {
		return err
	}
	for _, note := range notes {
		r.note("%s", note)
	}
	if err := r.askModels(ctx); err != nil {
		return err
	}
	r.prober.Backend = r.probeBackend
	if err := r.proveTokens(ctx); err != nil {
		return err
	}
	caches, engines := r.prober.PrefixCaches(ctx)
	if engines > 1 {
		r.note("a server stands for %d engines with a prefix cache each: which of them a request meets is its own choice, so hits below the ideal stay unexplained", engines)
	}
	r.sizeCaches(caches)
	err = r.chooseCold(ctx)
	for _, note := range metrics.Fold(r.unknown) {
		r.say.line("note: %s", note)
	}
	return err
}

// shownModel is the model's name as results have it.
func (r *replay) shownModel() string {
	if r.o.model != "" {
		return r.o.model
	}
	return r.prober.Secrets.Label(r.probed.model)
}

// probeBackend makes bodies whose answers tell how many tokens a prompt has.
func (r *replay) probeBackend(salt string) (api.Backend, error) {
	return r.o.backend(r.probed.model, salt, !r.o.traits.Counts && r.o.traits.StreamCounts)
}

// asksNoModel tells whether nothing is sent that names a model of our choice.
func (r *replay) asksNoModel() bool {
	return !r.o.traits.Model || r.verbatims.onlyPayloads() && r.o.warmup == 0
}

// proveTokens makes sure that the servers count the tokens that are made as we do. Words of others need no proof.
func (r *replay) proveTokens(ctx context.Context) error {
	switch {
	case r.verbatims.all:
		return nil
	case !r.o.traits.Counts && !r.o.traits.StreamCounts:
		r.assumeOverhead("the servers of --api " + r.o.api + " do not tell how many tokens a prompt has, so that each word is one is taken on trust (--tokenizer proves it)")
		return nil
	}
	return r.measureOverhead(ctx)
}

// skipProbe says what is taken for granted where nobody is asked.
func (r *replay) skipProbe() {
	if !r.verbatims.all {
		r.assumeOverhead("the servers are not asked")
	}
	r.sizeCaches(nil)
	if r.probed.model == "" && !r.asksNoModel() {
		r.probed.model = unprobedModel
		r.note("the servers are not asked: the model is sent as %q (set --model)", unprobedModel)
	}
	if r.o.dryRun {
		return
	}
	switch r.o.cold {
	case probe.ColdFlush:
		r.probed.flushed = true // startCold flushes, or fails
	case probe.ColdSalt:
		r.probed.salt = probe.NewSalt()
		r.noteUnsalted()
	default:
		r.note("cold: the servers are not asked to flush, and no cache_salt is sent; blocks of earlier runs with this seed may still be cached (--cold flush or salt)")
	}
}

// chooseCold decides how the run starts with a cold cache.
func (r *replay) chooseCold(ctx context.Context) error {
	cold := r.o.cold
	if cold == probe.ColdFlush || cold == probe.ColdAuto {
		path, err := r.prober.Flush(ctx)
		if err == nil {
			r.probed.flushed = true
			r.say.line("cold: the servers flush their prefix caches before the start (%s)", path)
			return nil
		}
		if cold == probe.ColdFlush || ctx.Err() != nil {
			return err
		}
	}
	if cold == probe.ColdOff {
		r.note("cold: off; blocks of earlier runs with this seed may still be in the servers' caches")
		return nil
	}
	if r.verbatims.onlyPayloads() {
		r.note("cold: the servers cannot flush, and bodies are sent as they are, without a cache_salt; what earlier runs have sent may still be cached")
		return nil
	}
	if !r.o.traits.Salt {
		r.leaveOpen("cold start (no flush, no salt; --seed)", "cold: the servers cannot flush, and --api %s has no cache_salt; blocks of earlier runs with this seed may still be cached (another --seed makes other blocks)", r.o.api)
		return nil
	}
	return r.trySalt(ctx, cold)
}

// noteUnsalted says which bodies a cache_salt is not in.
func (r *replay) noteUnsalted() {
	if n := r.verbatims.payloads; n > 0 {
		r.note("cold: no cache_salt is in %s, sent as they are; what earlier runs have sent of them may still be cached", format.Many(n, "payload"))
	}
}

func (r *replay) trySalt(ctx context.Context, cold probe.Cold) error {
	works, seen, err := r.prober.SaltWorks(ctx, r.source)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && cold == probe.ColdSalt:
		return fmt.Errorf("--cold salt: %w", err)
	case err != nil:
		r.leaveOpen("cold start (no flush, no salt; --seed)", "cold: the servers neither flush nor take a cache_salt (%v); blocks of earlier runs with this seed may still be cached", err)
		return nil
	case seen && !works && cold == probe.ColdSalt:
		return fmt.Errorf("--cold salt: %s ignores cache_salt: a prompt hits the cache in spite of another salt", r.work.Targets[0].URL)
	case seen && !works:
		r.leaveOpen("cold start (no flush, no salt; --seed)", "cold: the servers cannot flush and ignore cache_salt; blocks of earlier runs with this seed may still be cached")
		return nil
	}
	r.probed.salt = probe.NewSalt()
	r.noteUnsalted()
	switch {
	case seen:
		r.say.line("cold: a cache_salt of this run in every body of ours, proven to work")
	case r.work.CacheOff(0):
		r.say.line("cold: a cache_salt of this run in every body of ours; the server caches nothing, so nothing of earlier runs can hit")
	default:
		r.unproven = "cold: a cache_salt of this run is in every body of ours; the server has reported no cached tokens, so whether it honours the salt is unknown (vLLM: --enable-prompt-tokens-details)"
		r.say.line("note: %s", r.unproven)
	}
	return nil
}

// startCold flushes what probes and waiting have left in the caches, at the last moment.
func (r *replay) startCold(ctx context.Context) error {
	if !r.probed.flushed {
		return nil
	}
	_, err := r.prober.Flush(ctx)
	return err
}

// warmUp lets the servers answer some requests before the measurement, which has none of them.
func (r *replay) warmUp(ctx context.Context) error {
	if r.o.warmup == 0 {
		return nil
	}
	r.say.line("warm-up: %s, outside of the measurement", format.Many(int64(r.o.warmup), "request"))
	began, prober := time.Now(), *r.prober
	prober.Timeout = r.o.timeout
	prober.Backend = r.probeBackend
	if err := prober.WarmUp(ctx, r.work, r.source, r.o.warmup, r.o.pacing.concurrency, r.probed.salt); err != nil {
		return err
	}
	r.say.line("         answered in %s", format.Duration(float64(time.Since(began)), 3))
	return nil
}
