package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/json"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/workload"
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

// measureOverhead finds out what the servers add to a prompt, and how much of that precedes it.
func (r *replay) measureOverhead(ctx context.Context) error {
	added, err := r.prober.Overhead(ctx, r.source)
	if err != nil {
		return err
	}
	o, origin, err := r.splitOverhead(ctx, added)
	if err != nil {
		return err
	}
	r.work.Overhead = o
	switch {
	case added == 0:
		r.say.line("probe: each prompt token is one token there, and the server adds none")
	case o.HeadUnknown:
		r.say.line("probe: each prompt token is one token there; the server adds %s to every prompt", format.Many(int64(added), "token"))
	default:
		r.say.line("probe: each prompt token is one token there; the server adds %d before and %d after every prompt (%s)", o.Head, o.Tail, origin)
	}
	return nil
}

// splitOverhead divides the tokens that a server adds into head and tail, and says by what.
func (r *replay) splitOverhead(ctx context.Context, added int) (o workload.Overhead, origin string, err error) {
	if given := r.o.overhead; given != nil {
		if given.Tokens() != added {
			return o, "", fmt.Errorf("--chat-overhead %d,%d: that makes %d tokens, the servers add %d to a prompt", given.Head, given.Tail, given.Tokens(), added)
		}
		return *given, "--chat-overhead", r.contradict(ctx, *given)
	}
	if special, ok := r.specialTokens(); ok {
		if special.Tokens() == added {
			return special, "as " + r.tokenizer.Name() + " does", nil
		}
		r.note("the servers add %s to a prompt, %s would add %d; prompts are shortened by the servers' number",
			format.Many(int64(added), "token"), r.tokenizer.Name(), special.Tokens())
	}
	if added == 0 {
		return o, "", nil
	}
	return r.askHead(ctx, added)
}

// contradict is an error if the servers can tell that the given division is wrong.
func (r *replay) contradict(ctx context.Context, given workload.Overhead) error {
	told, err := r.prober.Head(ctx, r.source, given.Tokens())
	if err != nil || told == given {
		return nil
	}
	return fmt.Errorf("--chat-overhead %d,%d: the servers say %d,%d (/tokenize)", given.Head, given.Tail, told.Head, told.Tail)
}

// askHead asks the servers how many of the tokens that they add come first. Where they do not tell, a template leaves it open.
func (r *replay) askHead(ctx context.Context, added int) (o workload.Overhead, origin string, err error) {
	o, err = r.prober.Head(ctx, r.source, added)
	switch {
	case err == nil:
		return o, "/tokenize", nil
	case ctx.Err() != nil:
		return o, "", ctx.Err()
	case errors.Is(err, probe.ErrTemplateChanges):
		return o, "", fmt.Errorf("%w; fix the template, replay with --api completions, or give --chat-overhead HEAD,TAIL if only the tail changes", err)
	case !r.o.traits.Template:
		return workload.Overhead{Head: added}, "without a template they can only come first", nil
	}
	r.leaveOpen("exact ideal (no /tokenize; --chat-overhead)", "how many of the chat template's %d tokens precede a prompt is unknown (%v), so the expected hits are a range; give them with --chat-overhead HEAD,TAIL", added, err)
	return workload.Overhead{Tail: added, HeadUnknown: true}, "", nil
}

// specialTokens is what the model's own tokenizer adds to a text. Nothing of it is in a template, nor beside token ids.
func (r *replay) specialTokens() (o workload.Overhead, ok bool) {
	if r.tokenizer == nil || r.o.traits.Template || r.o.prompt != promptText {
		return o, false
	}
	o.Head, o.Tail = r.tokenizer.Special()
	return o, true
}

// assumeOverhead is for a run that cannot ask the servers, for a reason.
func (r *replay) assumeOverhead(why string) {
	if r.o.overhead != nil {
		r.work.Overhead = *r.o.overhead
		return
	}
	if special, ok := r.specialTokens(); ok {
		r.work.Overhead = special
		r.note("%s: they are taken to add %s to a prompt, as %s does", why, format.Many(int64(special.Tokens()), "token"), r.tokenizer.Name())
		return
	}
	r.note("%s: what they add to a prompt is taken as 0 tokens", why)
}

// parseOverhead reads HEAD,TAIL as a flag has it; nil of nothing.
func parseOverhead(flag, text string) (*workload.Overhead, error) {
	if text == "" {
		return nil, nil
	}
	head, tail, ok := strings.Cut(text, ",")
	h, err1 := strconv.ParseUint(strings.TrimSpace(head), 10, 20)
	t, err2 := strconv.ParseUint(strings.TrimSpace(tail), 10, 20)
	if !ok || err1 != nil || err2 != nil {
		return nil, fmt.Errorf("%s %q: want HEAD,TAIL in tokens, such as 20,5", flag, text)
	}
	return &workload.Overhead{Head: int(h), Tail: int(t)}, nil
}

// sizeCaches settles how large each server's prefix cache is: as the flags say, else as the server told, else blocks of the
// usual size and a capacity that nobody knows.
func (r *replay) sizeCaches(told map[netip.AddrPort]workload.PrefixCache) {
	r.work.Caches = map[netip.AddrPort]workload.PrefixCache{}
	var kinds, against []string
	for _, t := range r.work.Targets {
		for _, addr := range t.Endpoints {
			c, words := r.o.sizeCache(told[addr])
			r.work.Caches[addr] = c
			kinds = append(kinds, words)
			if text := r.o.contradictCache(told[addr]); text != "" {
				against = append(against, text)
			}
		}
	}
	slices.Sort(against)
	for _, text := range slices.Compact(against) {
		r.note("%s: what is given is used; leave it out to use what the server says", text)
	}
	if !r.o.dryRun {
		slices.Sort(kinds)
		r.say.line("cache: %s", strings.Join(slices.Compact(kinds), "; "))
	}
}

// sizeCache is sizeCaches for one server, of which the zero value was told if nothing was. The words say where each number
// comes from.
func (o *options) sizeCache(told workload.PrefixCache) (c workload.PrefixCache, words string) {
	c, block, capacity := told, "/metrics", "/metrics"
	switch {
	case o.engineBlock > 0:
		c.BlockTokens, c.Assumed, block = o.engineBlock, false, "--engine-block-tokens"
	case c.BlockTokens == 0:
		c.BlockTokens, c.Assumed, block = workload.DefaultBlockTokens, true, "assumed"
	case c.Assumed:
		block = "/metrics, uncertain: its capacity is no number of such blocks"
	}
	if o.cacheCapacity > 0 {
		c.Tokens, capacity = o.cacheCapacity, "--cache-tokens"
	}
	if c.Off {
		return c, "the servers say that prefix caching is off"
	}
	words = fmt.Sprintf("blocks of %s (%s), ", format.Many(int64(c.BlockTokens), "token"), block)
	if c.Tokens == 0 {
		return c, words + "capacity unknown (give --cache-tokens)"
	}
	return c, words + fmt.Sprintf("%s per server (%s)", format.Many(c.Tokens, "token"), capacity)
}

// contradictCache names the given sizes of a server's cache that are not what the server tells; "" if all are.
func (o *options) contradictCache(told workload.PrefixCache) string {
	var wrong []string
	if block := told.BlockTokens; o.engineBlock > 0 && block > 0 && !told.Assumed && block != o.engineBlock {
		wrong = append(wrong, fmt.Sprintf("--engine-block-tokens is %d, /metrics says %d", o.engineBlock, block))
	}
	if o.cacheCapacity > 0 && told.Tokens > 0 && told.Tokens != o.cacheCapacity {
		wrong = append(wrong, fmt.Sprintf("--cache-tokens is %d, /metrics says %d", o.cacheCapacity, told.Tokens))
	}
	return strings.Join(wrong, "; ")
}

// parseTokens reads a number of tokens such as 3000000, 300k, 3M or 1.5G.
func parseTokens(text string) (int64, error) {
	if n, ok := parseAmount(text, map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}); ok && n <= 1<<52 {
		return n, nil
	}
	return 0, fmt.Errorf("%q is no number of tokens; want one such as 3000000, 300k or 3M", text)
}

// parseBytes reads a size such as 500MB, 8GiB or 1048576.
func parseBytes(text string) (int64, error) {
	units := map[string]float64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20,
		"GiB": 1 << 30, "TiB": 1 << 40, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
	if n, ok := parseAmount(text, units); ok {
		return n, nil
	}
	return 0, fmt.Errorf("size %q; want bytes, or a number with kB, MB, GB, KiB, MiB or GiB", text)
}

// parseAmount reads a number from 1 to 2^62 with the name of a unit behind it.
func parseAmount(text string, units map[string]float64) (n int64, ok bool) {
	number := strings.TrimRightFunc(text, unicode.IsLetter)
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	v *= units[text[len(number):]]
	return int64(v), err == nil && v >= 1 && v <= 1<<62
}

// The values of --too-long.
const (
	tooLongRefuse = "refuse"
	tooLongDrop   = "drop"
	tooLongClip   = "clip"
)

// askModels asks the targets what they serve: the model where none is named, and the smallest context, so that every router may send
// any request to any of them. Only the first answer must come, and only if the model's name depends on it.
func (r *replay) askModels(ctx context.Context) error {
	if !r.o.traits.Model && r.verbatims.payloads == 0 {
		return nil
	}
	var asked map[string][]int32
	for i := range r.prober.Targets {
		t := &r.prober.Targets[i]
		models, err := r.prober.Models(ctx, t)
		unnamed := r.probed.model == "" && !r.asksNoModel()
		if err != nil && unnamed {
			return err
		}
		if err != nil {
			continue
		}
		if unnamed {
			r.probed.model = models[0].ID
			r.say.line("model: %s, from /v1/models", r.shownModel())
		}
		if asked == nil {
			asked = r.askedModels()
		}
		r.noteUnlisted(t.URL, models, asked)
		if n := models.Context(r.probed.model); n > 0 && (r.probed.context == 0 || n < r.probed.context) {
			r.probed.context = n
		}
	}
	return nil
}

// askedModels lists the rows of the requests that ask for a model, by its name.
func (r *replay) askedModels() map[string][]int32 {
	asked := map[string][]int32{}
	for i := range r.work.Requests() {
		l, name := r.trace.Verbatim(i), r.probed.model
		bodies := [][]byte{l.Extra, r.o.extra}
		if l.Kind == trace.VerbatimPayload {
			name, bodies = "", append(bodies, slices.Concat([]byte{'{'}, l.Content, []byte{'}'}))
		}
		for _, body := range bodies {
			if told := api.Field(body, []string{"model"}); told != nil {
				name = string(json.AppendUnescaped(nil, told))
				break
			}
		}
		asked[name] = append(asked[name], r.trace.Row[i])
	}
	delete(asked, "") // the server's default
	return asked
}

// noteUnlisted names models that requests ask for and a server does not list, each once.
func (r *replay) noteUnlisted(url string, models probe.Models, asked map[string][]int32) {
	flag := "--model "
	if r.verbatims.payloads > 0 {
		flag = "--extra-inputs model:"
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if rows := asked[name]; !models.Lists(name) {
			r.note("%s (the first is row %d, from 0) for the model %q, which %s/v1/models does not list; %s%s replaces it",
				format.Many(int64(len(rows)), "request"), rows[0], name, url, flag, r.prober.Secrets.Label(models[0].ID))
			delete(asked, name)
		}
	}
}

// sized is a backend whose extra inputs say how long answers may be, so that no row does.
type sized struct{ api.Backend }

func (sized) OwnLength([]byte) bool { return true }

// fit does with requests that are longer than the servers' context as --too-long says. A verbatim prompt and
// could not be counted is sent.
func (r *replay) fit(context.Context) error {
	limit, mode := r.probed.context, r.o.tooLong
	if limit == 0 {
		if r.o.pacing.given("too-long") {
			r.note("--too-long %s: no server has told how long a prompt and its output may be, so nothing is known to be too long", mode)
		}
		return nil
	}
	backend, err := r.o.backend(r.probed.model, "", false)
	if err != nil {
		return err
	}
	if api.OwnLength(r.o.api, r.o.extra) {
		backend = sized{backend}
	}
	list := r.work.TooLong(limit, backend)
	if len(list) == 0 {
		return nil
	}
	prompt, output := r.work.Lengths(int(list[0]), backend)
	needs := format.Count(int64(prompt))
	if prompt == 0 {
		needs = "an unknown number of"
	}
	words := fmt.Sprintf("%s whose prompt and output exceed the servers' context of %s (/v1/models); the first is row %d (from 0) of %s, with %s prompt and %s output tokens",
		format.Many(int64(len(list)), "request"), format.Many(int64(limit), "token"), r.trace.Row[list[0]], r.trace.Name, needs, format.Count(int64(output)))
	fixed := slices.IndexFunc(list, func(i int32) bool { return !r.work.Made(int(i)) })
	switch mode {
	case tooLongDrop:
		if len(list) == r.work.Requests() {
			return fmt.Errorf("--too-long drop: nothing is left: %s", words)
		}
		r.workload.LeftOut = int64(len(list))
		r.leftOut = r.work.LeaveOut(list, r.runID, backend, fmt.Sprintf("longer than the server's context of %d tokens: %s", limit, record.LeftOutWords))
		r.note("--too-long drop leaves out %s", words)
	case tooLongClip:
		if fixed >= 0 {
			return fmt.Errorf("--too-long clip: the prompt of row %d is verbatim, and no part of it can be left out; use --too-long drop", r.trace.Row[list[fixed]])
		}
		tokens, ok := r.work.Clip(list, limit, backend)
		if !ok {
			return fmt.Errorf("--too-long clip: a context of %d tokens has no room for a prompt beside the %d that the server adds", limit, r.work.Overhead.Tokens())
		}
		r.workload.Clipped, r.workload.ClippedOff = int64(len(list)), tokens
		r.note("--too-long clip shortens, by %s in all, %s", format.Many(tokens, "token"), words)
	default:
		advice := "leave them out with --too-long drop"
		if fixed < 0 {
			advice += ", or shorten their prompts at the end with --too-long clip"
		}
		return fmt.Errorf("the trace has %s; %s", words, advice)
	}
	r.workload.Context, r.trace = int64(limit), r.work.Trace
	r.verbatims = verbatimsOf(r.trace, r.work.Requests())
	return nil
}
