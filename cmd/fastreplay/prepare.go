package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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

// prepared is a load with a target that answers it: what the servers said before the start, and what that makes of the load.
type prepared struct {
	*load
	*target
	o     *options
	ui    *terminal
	runID string

	model   string
	context int    // tokens that a prompt and its output may have together, at every target; 0 = unknown
	listed  string // models that a server lists, if it does not list one that is asked for
	salt    string // "" where none is sent
	flushed bool   // the servers can flush; done again just before the start

	leftOut  []record.Record   // of requests that are not sent, for they are too long
	fitted   metrics.Workload  // what fit has found
	unknown  []metrics.Unknown // what the servers do not report
	unproven string            // a note that the run contradicts if responses report cached tokens; "" = none
}

// prepare asks the servers what the run must know, and leaves out what they cannot take.
func prepare(ctx context.Context, o *options, l *load, t *target, ui *terminal) (*prepared, error) {
	p := &prepared{load: l, target: t, o: o, ui: ui, runID: fmt.Sprintf("%08x", rand.Uint32()), model: o.model}
	p.prober.Tokenize, p.prober.AsRun = p.tokenizeBackend, p.runBackend
	p.prober.Extra, p.prober.LeastOutput = string(o.extra), api.LeastOutput(o.api, o.extra)
	p.prober.RunOutput = int(l.Trace.OutputTokens[0])
	for _, step := range []func(context.Context) error{p.probe, p.countVerbatim, p.fit, p.checkMetrics} {
		if err := orInterrupted(ctx, step(ctx)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// leaveOpen notes what the servers do not report, in a few words and in whole sentences; probe prints it.
func (p *prepared) leaveOpen(what, format string, args ...any) {
	p.unknown = append(p.unknown, metrics.Unknown{What: what, Note: fmt.Sprintf(format, args...)})
}

// unprobedModel is the model's name where nobody gave one and nobody may be asked.
const unprobedModel = "model"

// probe asks the servers whether they answer, for the model and the overhead, and how to start cold.
func (p *prepared) probe(ctx context.Context) error {
	if p.o.cold == probe.ColdSalt && p.verbatims.onlyPayloads() {
		return errors.New("--cold salt: bodies are sent as they are, without a cache_salt; give --cold flush or off, or put one into each with --extra-inputs cache_salt:… and --cold off")
	}
	if p.o.noProbe || p.o.dryRun {
		p.skipProbe()
		return nil
	}
	notes, err := p.prober.Alive(ctx)
	if err != nil {
		return err
	}
	for _, note := range notes {
		p.ui.note("%s", note)
	}
	if err := p.askModels(ctx); err != nil {
		return err
	}
	p.prober.Backend = p.probeBackend
	switch { // verbatim prompts need no proof
	case p.verbatims.all:
	case !p.o.traits.Counts && !p.o.traits.StreamCounts:
		p.assumeOverhead("the servers of --api " + p.o.api + " do not report how many tokens a prompt has, so that each word is one is taken on trust (--tokenizer proves it)")
	default: // the servers must count the tokens of our prompts as we do
		if err := p.measureOverhead(ctx); err != nil {
			if p.listed != "" {
				err = fmt.Errorf("%w; listed there: %s", err, p.listed)
			}
			return err
		}
	}
	if err := p.probeAnswers(ctx); err != nil {
		return err
	}
	caches, engines := p.prober.PrefixCaches(ctx)
	if engines > 1 {
		p.ui.note("a server stands for %d engines with a prefix cache each: which of them a request meets is its own choice, so hits below the ideal stay unexplained", engines)
	}
	p.sizeCaches(caches)
	err = p.chooseCold(ctx)
	for _, note := range metrics.Fold(p.unknown) {
		p.ui.line("note: %s", note)
	}
	return err
}

// shownModel is the model's name as results have it.
func (p *prepared) shownModel() string {
	if p.o.model != "" {
		return p.o.model
	}
	return p.prober.Secrets.Label(p.model)
}

// probeBackend makes bodies whose answers count the tokens of a prompt.
func (p *prepared) probeBackend(salt string) (api.Backend, error) {
	return p.o.backend(p.model, salt, !p.o.traits.Counts && p.o.traits.StreamCounts)
}

// runBackend makes bodies as the run's requests have them.
func (p *prepared) runBackend(salt string) (api.Backend, error) {
	return p.o.backend(p.model, salt, !p.o.noStream)
}

// tokenizeBackend makes bodies as /tokenize takes them.
func (p *prepared) tokenizeBackend() (api.Backend, error) {
	name := "completions"
	if p.o.traits.Template {
		name = "chat"
	}
	o := api.Options{Model: p.model, TokenIDs: p.o.prompt == promptTokenIDs && name == "completions"}
	if name == p.o.api {
		o.ForceOutput, o.Extra = !p.o.noForceOutput, p.o.extra // what shapes the template is in it, and servers ignore the rest
	}
	return api.New(name, o)
}

// asksNoModel reports whether no request names a model of our choice.
func (p *prepared) asksNoModel() bool {
	return !p.o.traits.Model || p.verbatims.onlyPayloads() && p.o.warmup == 0
}

// skipProbe notes what is assumed if no server is asked.
func (p *prepared) skipProbe() {
	if !p.verbatims.all {
		p.assumeOverhead("the servers are not asked")
	}
	p.sizeCaches(nil)
	if p.model == "" && !p.asksNoModel() {
		p.model = unprobedModel
		p.ui.note("the servers are not asked: the model is sent as %q (set --model)", unprobedModel)
	}
	if p.o.dryRun {
		return
	}
	switch p.o.cold {
	case probe.ColdFlush:
		p.flushed = !p.o.follows() // getReady flushes, or fails
	case probe.ColdSalt:
		p.takeSalt()
	default:
		p.ui.note("cold: the servers are not asked to flush, and no cache_salt is sent; blocks of earlier runs with this seed may still be cached (--cold flush or salt)")
	}
}

// chooseCold decides how the run starts with a cold cache.
func (p *prepared) chooseCold(ctx context.Context) error {
	cold := p.o.cold
	if p.o.follows() && cold != probe.ColdSalt && cold != probe.ColdOff {
		p.ui.detail("cold: shard 0 has the servers flush their prefix caches")
		return nil
	}
	if cold == probe.ColdFlush || cold == probe.ColdAuto {
		path, err := p.prober.Flush(ctx)
		if err == nil {
			p.flushed = true
			p.ui.detail("cold: the servers flush their prefix caches before the start (%s)", path)
			return nil
		}
		if cold == probe.ColdFlush || ctx.Err() != nil {
			return err
		}
		if p.o.isShard() {
			return fmt.Errorf("--cold auto: shards can only flush, and the servers cannot (%w); give --cold salt or off to all shards", err)
		}
	}
	switch {
	case cold == probe.ColdOff:
		p.ui.note("cold: off; blocks of earlier runs with this seed may still be in the servers' caches")
		return nil
	case p.verbatims.onlyPayloads():
		p.ui.note("cold: the servers cannot flush, and bodies are sent as they are, without a cache_salt; what earlier runs have sent may still be cached")
		return nil
	}
	why, seen := "have no cache_salt in --api "+p.o.api, false
	if p.o.traits.Salt {
		var works bool
		var err error
		works, seen, err = p.prober.SaltWorks(ctx, p.source)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			why = fmt.Sprintf("take no cache_salt (%v)", err)
		case seen && !works:
			why = "ignore cache_salt: a prompt hits the cache in spite of another salt"
		default:
			why = ""
		}
	}
	switch {
	case why == "":
		p.useSalt(seen)
	case cold == probe.ColdSalt:
		return fmt.Errorf("--cold salt: the servers %s", why)
	default:
		p.leaveOpen("cold start (no flush, no salt; --seed)", "cold: the servers cannot flush and %s; blocks of earlier runs with this seed may still be cached (another --seed makes other blocks)", why)
	}
	return nil
}

// takeSalt chooses a cache_salt of this run, and notes which bodies do not have it.
func (p *prepared) takeSalt() {
	p.salt = p.o.newSalt()
	if n := p.verbatims.payloads; n > 0 {
		p.ui.note("cold: no cache_salt is in %s, sent as they are; what earlier runs have sent of them may still be cached", format.Many(n, "payload"))
	}
}

// useSalt puts a salt of this run into bodies; seen says that a server was seen to honour one.
func (p *prepared) useSalt(seen bool) {
	p.takeSalt()
	switch {
	case seen:
		p.ui.detail("cold: a cache_salt of this run in every body of ours, proven to work")
	case p.CacheOff(0):
		p.ui.detail("cold: a cache_salt of this run in every body of ours; the server caches nothing, so nothing of earlier runs can hit")
	default:
		p.unproven = "cold: a cache_salt of this run is in every body of ours; the server has reported no cached tokens, so whether it honours the salt is unknown (vLLM: --enable-prompt-tokens-details)"
		p.ui.line("note: %s", p.unproven)
	}
}

// warmUp lets the servers answer some requests before the measurement, which has none of them.
func (p *prepared) warmUp(ctx context.Context) error {
	if p.o.warmup == 0 {
		return nil
	}
	p.ui.line("warm-up: %s, outside of the measurement", format.Many(p.o.warmup, "request"))
	began, prober := time.Now(), *p.prober
	prober.Timeout = p.o.timeout
	prober.Backend = p.probeBackend
	if err := prober.WarmUp(ctx, p.Work, p.source, p.o.warmup, p.o.pacing.concurrency, p.salt); err != nil {
		return err
	}
	p.ui.detail("         answered in %s", format.Duration(time.Since(began), 3))
	return nil
}

// measureOverhead finds out what the servers add to a prompt, and how much of that precedes it.
func (p *prepared) measureOverhead(ctx context.Context) error {
	added, err := p.prober.Overhead(ctx, p.source)
	if err != nil {
		return err
	}
	o, origin, err := p.splitOverhead(ctx, added)
	if err != nil {
		return err
	}
	p.Overhead = o
	switch {
	case added == 0:
		p.ui.detail("probe: each prompt token is one token there, and the server adds none")
	case o.HeadUnknown:
		p.ui.detail("probe: each prompt token is one token there; the server adds %s to every prompt", format.Many(added, "token"))
	default:
		p.ui.detail("probe: each prompt token is one token there; the server adds %d before and %d after every prompt (%s)", o.Head, o.Tail, origin)
	}
	return nil
}

// splitOverhead divides the tokens that a server adds into head and tail. origin is the source of the division.
func (p *prepared) splitOverhead(ctx context.Context, added int) (o workload.Overhead, origin string, err error) {
	if given := p.o.overhead; given != nil {
		if given.Tokens() != added {
			return o, "", fmt.Errorf("--chat-overhead %d,%d: that makes %d tokens, the servers add %d to a prompt", given.Head, given.Tail, given.Tokens(), added)
		}
		if said, err := p.prober.Head(ctx, p.source, added); err == nil && said != *given {
			return o, "", fmt.Errorf("--chat-overhead %d,%d: the servers say %d,%d (/tokenize)", given.Head, given.Tail, said.Head, said.Tail)
		}
		return *given, "--chat-overhead", nil
	}
	if special, ok := p.specialTokens(); ok {
		if special.Tokens() == added {
			return special, "as " + p.tokenizer.Name() + " does", nil
		}
		p.ui.note("the servers add %s to a prompt, %s would add %d; prompts are shortened by the servers' number",
			format.Many(added, "token"), p.tokenizer.Name(), special.Tokens())
	}
	if added == 0 {
		return o, "", nil
	}
	return p.askHead(ctx, added)
}

// askHead asks the servers how many of the tokens that they add come first. If they do not answer, a template leaves it open.
func (p *prepared) askHead(ctx context.Context, added int) (o workload.Overhead, origin string, err error) {
	o, err = p.prober.Head(ctx, p.source, added)
	switch {
	case err == nil:
		return o, "/tokenize", nil
	case ctx.Err() != nil:
		return o, "", ctx.Err()
	case errors.Is(err, probe.ErrTemplateChanges):
		return o, "", fmt.Errorf("%w; fix the template, replay with --api completions, or give --chat-overhead HEAD,TAIL if only the tail changes", err)
	case !p.o.traits.Template:
		return workload.Overhead{Head: added}, "without a template they can only come first", nil
	}
	p.leaveOpen("exact ideal (no /tokenize; --chat-overhead)", "how many of the chat template's %d tokens precede a prompt is unknown (%v), so the expected hits are a range; give them with --chat-overhead HEAD,TAIL", added, err)
	return workload.Overhead{Tail: added, HeadUnknown: true}, "", nil
}

// specialTokens returns what the model's own tokenizer adds to a text. Nothing of it is in a template, nor beside token ids.
func (p *prepared) specialTokens() (o workload.Overhead, ok bool) {
	if p.tokenizer == nil || p.o.traits.Template || p.o.prompt != promptText {
		return o, false
	}
	o.Head, o.Tail = p.tokenizer.Special()
	return o, true
}

// assumeOverhead is for a run that cannot ask the servers, for a reason.
func (p *prepared) assumeOverhead(why string) {
	if p.o.overhead != nil {
		p.Overhead = *p.o.overhead
		return
	}
	if special, ok := p.specialTokens(); ok {
		p.Overhead = special
		p.ui.note("%s: they are taken to add %s to a prompt, as %s does", why, format.Many(special.Tokens(), "token"), p.tokenizer.Name())
		return
	}
	p.ui.note("%s: what they add to a prompt is taken as 0 tokens", why)
}

// parseOverhead reads HEAD,TAIL; nil of nothing.
func parseOverhead(text string) (*workload.Overhead, error) {
	if text == "" {
		return nil, nil
	}
	head, tail, ok := strings.Cut(text, ",")
	h, err1 := strconv.ParseUint(strings.TrimSpace(head), 10, 20)
	t, err2 := strconv.ParseUint(strings.TrimSpace(tail), 10, 20)
	if !ok || err1 != nil || err2 != nil {
		return nil, errors.New("want HEAD,TAIL in tokens, such as 20,5")
	}
	return &workload.Overhead{Head: int(h), Tail: int(t)}, nil
}

// sizeCaches sets how large each server's prefix cache is: by the flags, else by what the server reports. Without either it takes
// blocks of the usual size and an unknown capacity.
func (p *prepared) sizeCaches(told map[netip.AddrPort]workload.PrefixCache) {
	p.Caches = map[netip.AddrPort]workload.PrefixCache{}
	kinds, against := map[string]bool{}, map[string]bool{}
	for _, t := range p.Targets {
		for _, addr := range t.Endpoints {
			c, words := p.o.sizeCache(told[addr])
			p.Caches[addr] = c
			kinds[words] = true
			against[p.o.contradictCache(told[addr])] = true
		}
	}
	delete(against, "")
	for _, text := range slices.Sorted(maps.Keys(against)) {
		p.ui.note("%s: what is given is used; leave it out to use what the server says", text)
	}
	if !p.o.dryRun {
		p.ui.detail("cache: %s", strings.Join(slices.Sorted(maps.Keys(kinds)), "; "))
	}
}

// sizeCache is sizeCaches for one server, which reports told; the zero value if it reports nothing. The words name the source of each
// number.
func (o *proofOptions) sizeCache(told workload.PrefixCache) (c workload.PrefixCache, words string) {
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
	words = fmt.Sprintf("blocks of %s (%s), ", format.Many(c.BlockTokens, "token"), block)
	if c.Tokens == 0 {
		return c, words + "capacity unknown (give --cache-tokens)"
	}
	return c, words + fmt.Sprintf("%s per server (%s)", format.Many(c.Tokens, "token"), capacity)
}

// contradictCache names the given sizes of a server's cache that differ from what the server reports; "" if none does.
func (o *proofOptions) contradictCache(told workload.PrefixCache) string {
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
	return 0, errors.New("want a number of tokens such as 3000000, 300k or 3M")
}

// parseBytes reads a size such as 500MB, 8GiB or 1048576.
func parseBytes(text string) (int64, error) {
	units := map[string]float64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20,
		"GiB": 1 << 30, "TiB": 1 << 40, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
	if n, ok := parseAmount(text, units); ok {
		return n, nil
	}
	return 0, errors.New("want bytes, or a number with kB, MB, GB, KiB, MiB or GiB")
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

// askModels asks the targets what they serve: the model if none is named, and the smallest context. So every router may send any
// request to any of them. Only the first answer must come, and only if the model's name depends on it.
func (p *prepared) askModels(ctx context.Context) error {
	if !p.o.traits.Model && p.verbatims.payloads == 0 {
		return nil
	}
	var asked map[string][]int32
	for i := range p.prober.Targets {
		t := &p.prober.Targets[i]
		models, err := p.prober.Models(ctx, t)
		unnamed := p.model == "" && !p.asksNoModel()
		if err != nil && unnamed {
			return err
		}
		if err != nil {
			continue
		}
		if unnamed {
			p.model = models[0].ID
			p.ui.detail("model: %s, from /v1/models", p.shownModel())
		}
		if asked == nil {
			asked = p.askedModels()
		}
		p.noteUnlisted(t.URL, models, asked)
		if n := models.Context(p.model); n > 0 && (p.context == 0 || n < p.context) {
			p.context = n
		}
	}
	return nil
}

// askedModels lists the rows of the requests that ask for a model, by its name.
func (p *prepared) askedModels() map[string][]int32 {
	asked := map[string][]int32{}
	for i := range p.Requests() {
		l, name := p.Trace.Verbatim(i), p.model
		bodies := [][]byte{l.Extra, p.o.extra}
		if l.Kind == trace.VerbatimPayload {
			name, bodies = "", append(bodies, slices.Concat([]byte{'{'}, l.Content, []byte{'}'}))
		}
		for _, body := range bodies {
			if told := api.Field(body, []string{"model"}); told != nil {
				name = string(json.AppendUnescaped(nil, told))
				break
			}
		}
		asked[name] = append(asked[name], p.Trace.Row[i])
	}
	delete(asked, "") // the server's default
	return asked
}

// noteUnlisted names models that requests ask for and a server does not list, each once.
func (p *prepared) noteUnlisted(url string, models probe.Models, asked map[string][]int32) {
	flag := "--model "
	if p.verbatims.payloads > 0 {
		flag = "--extra-inputs model:"
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if rows := asked[name]; !models.Lists(name) {
			var listed []string
			for _, m := range models[:min(len(models), maxNamed)] {
				listed = append(listed, p.prober.Secrets.Label(m.ID))
			}
			p.listed = strings.Join(listed, ", ")
			p.ui.note("%s (the first is row %d, from 0) for the model %q, which %s/v1/models does not list; %s%s replaces it",
				format.Many(len(rows), "request"), rows[0], name, url, flag, p.prober.Secrets.Label(models[0].ID))
			delete(asked, name)
		}
	}
}

// sized is a backend whose extra inputs bound the answers, so that no row does.
type sized struct{ api.Backend }

func (sized) OwnLength([]byte) bool { return true }

// fit treats requests that are longer than the servers' context as --too-long asks. A verbatim prompt that could not be counted is
// sent.
func (p *prepared) fit(context.Context) error {
	limit, mode := p.context, p.o.tooLong
	if limit == 0 {
		if p.o.given("too-long") {
			p.ui.note("--too-long %s: no server reports how long a prompt and its output may be, so nothing is known to be too long", mode)
		}
		return nil
	}
	backend, err := p.o.backend(p.model, "", false)
	if err != nil {
		return err
	}
	if api.OwnLength(p.o.api, p.o.extra) {
		backend = sized{backend}
	}
	list := p.TooLong(limit, backend)
	if len(list) == 0 {
		return nil
	}
	prompt, output := p.Lengths(int(list[0]), backend)
	needs := format.Count(prompt)
	if prompt == 0 {
		needs = "an unknown number of"
	}
	words := fmt.Sprintf("%s whose prompt and output exceed the servers' context of %s (/v1/models); the first is row %d (from 0) of %s, with %s prompt and %s output tokens",
		format.Many(len(list), "request"), format.Many(limit, "token"), p.Trace.Row[list[0]], p.Trace.Name, needs, format.Count(output))
	fixed := slices.IndexFunc(list, func(i int32) bool { return !p.Made(int(i)) })
	switch mode {
	case tooLongDrop:
		if len(list) == p.Requests() {
			return fmt.Errorf("--too-long drop: nothing is left: %s", words)
		}
		p.fitted.LeftOut = int64(len(list))
		p.leftOut = p.LeaveOut(list, p.runID, backend, fmt.Sprintf("longer than the server's context of %d tokens: %s", limit, record.LeftOutWords))
		p.ui.note("--too-long drop leaves out %s", words)
	case tooLongClip:
		if fixed >= 0 {
			return fmt.Errorf("--too-long clip: the prompt of row %d is verbatim, and no part of it can be left out; use --too-long drop", p.Trace.Row[list[fixed]])
		}
		tokens, ok := p.Clip(list, limit, backend)
		if !ok {
			return fmt.Errorf("--too-long clip: a context of %d tokens has no room for a prompt beside the %d that the server adds", limit, p.Overhead.Tokens())
		}
		p.fitted.Clipped, p.fitted.ClippedOff = int64(len(list)), tokens
		p.ui.note("--too-long clip shortens, by %s in all, %s", format.Many(tokens, "token"), words)
	default:
		advice := "leave them out with --too-long drop"
		if fixed < 0 {
			advice += ", or shorten their prompts at the end with --too-long clip"
		}
		return fmt.Errorf("the trace has %s; %s", words, advice)
	}
	p.fitted.Context = int64(limit)
	p.verbatims = verbatimsOf(p.Trace, p.Requests())
	return nil
}
