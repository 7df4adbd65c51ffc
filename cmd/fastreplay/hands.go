package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// hands are a user's: they type the flags that they know, and here those become ours.
type hands struct {
	flags   *pflag.FlagSet
	aliases map[string]*alias
	taken   []taken           // on the command line, in order
	typed   map[string]string // by our flag, the name under which it was given
	address struct{ host, port string }
	profile bool

	fromFile []string // our flags that a file set
	dataset  string   // vLLM's --dataset-name; "" = not given
	lengths  string   // alias that gives lengths to answers of which the trace has none; "" = not given
	notes    []string
}

// taken is an alias as given.
type taken struct {
	*alias
	text string
}

// newHands adds the aliases to flags that have ours already; none of them shows in the usage.
func newHands(flags *pflag.FlagSet, profile bool) *hands {
	h := &hands{flags: flags, aliases: map[string]*alias{}, typed: map[string]string{}, profile: profile}
	for _, a := range aliasesOf(profile) {
		f := flags.VarPF(&aliasValue{h, &a}, a.name, a.short, "")
		f.Hidden = true
		if a.takes == noValue {
			f.NoOptDefVal = "true"
		}
		h.aliases[a.name] = &a
	}
	return h
}

// aliasValue notes that an alias was given.
type aliasValue struct {
	h *hands
	a *alias
}

var _ pflag.Value = (*aliasValue)(nil)

// Set implements pflag.Value.
func (v *aliasValue) Set(text string) error {
	v.h.taken = append(v.h.taken, taken{v.a, text})
	return nil
}

// String implements pflag.Value. What was given may be secret, and is our flag's to show.
func (v *aliasValue) String() string { return "" }

// Type implements pflag.Value.
func (v *aliasValue) Type() string { return "value" }

// settle turns what was typed, and after it what a file says, into our flags. The trace may also stand beside them.
func (h *hands) settle(o *options, args []string) error {
	for _, t := range h.taken {
		if t.name == "dataset-name" {
			h.dataset, h.profile = t.text, false // the command is no AIPerf's
		}
	}
	for _, t := range h.taken {
		for _, theirs := range notAIPerf() {
			if h.dataset != "" && theirs.name == t.name {
				t.alias = &theirs
			}
		}
		if err := h.take(t); err != nil {
			return err
		}
	}
	if err := h.join(o); err != nil {
		return err
	}
	if o.config != "" {
		if err := h.readConfig(o.config, len(args) > 0); err != nil {
			return err
		}
	}
	for _, step := range []func(*options) error{h.join, h.likeVLLM, h.asTyped, h.inFileTime, h.ourAPI, h.likeAIPerf} {
		if err := step(o); err != nil {
			return err
		}
	}
	h.unlikeReplayer()
	h.tokenizer(o)
	return nil
}

func (h *hands) note(format string, args ...any) {
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}

// take gives our flag what an alias of it was given.
func (h *hands) take(t taken) error {
	if t.refused != "" {
		return fmt.Errorf("--%s: %s", t.name, t.refused)
	}
	if t.note != "" {
		h.note("--%s: %s", t.name, t.note)
	}
	if slices.Contains(answerLengths(), t.name) {
		h.lengths = "--" + t.name
	}
	if t.flag == "" {
		return nil
	}
	text, err := t.text, error(nil)
	if t.value != nil {
		text, err = t.value(t.text)
	}
	switch {
	case err != nil:
		return fmt.Errorf("--%s %q: %w", t.name, t.text, err)
	case text == "" && t.value != nil:
		return nil
	case t.name == "host":
		h.address.host = text
		return nil
	case t.name == "port":
		h.address.port = text
		return nil
	case t.name == "served-model-name": // --model then names the tokenizer
		h.typed["model"] = "--served-model-name"
		return h.flags.Set("model", text)
	}
	return h.set(t.alias, text)
}

// answerLengths are AIPerf's names of the length of answers of which a file says none.
func answerLengths() []string {
	return strings.Fields("osl output-tokens-mean prompt-output-tokens-mean")
}

// checkLengths refuses a length for answers where the trace leaves any open: none is made up here.
func (h *hands) checkLengths(t *trace.Trace) error {
	for i := range t.Len() {
		if h.lengths != "" && t.OutputTokens[i] == 0 && t.Literal(i).Kind != trace.PayloadLiteral {
			return fmt.Errorf("%s: row %d says no length of its answer, and none is made up here; give all the same with --no-force-output --extra-inputs max_tokens:N", h.lengths, t.Row[i])
		}
	}
	return nil
}

// set refuses two names of one flag that say different things.
func (h *hands) set(a *alias, text string) error {
	own := h.flags.Lookup(a.flag)
	typed, before := h.typed[a.flag], said(own)
	if typed == "" {
		typed = "--" + a.flag
	}
	fresh := !own.Changed || a.adds || typed == "--"+a.name
	if slices.Equal(before, []string{text}) && !fresh {
		return nil
	}
	if err := h.flags.Set(a.flag, text); err != nil {
		return fmt.Errorf("--%s %q: %w", a.name, text, cause(err))
	}
	if !fresh && !slices.Equal(before, said(own)) {
		return fmt.Errorf("%s and --%s are two names of one flag and differ; give one of them", typed, a.name)
	}
	if !a.adds {
		h.typed[a.flag] = "--" + a.name
	}
	return nil
}

// said is what a flag has been given.
func said(f *pflag.Flag) []string {
	if s, ok := f.Value.(pflag.SliceValue); ok {
		return s.GetSlice()
	}
	return []string{f.Value.String()}
}

// cause is why a flag does not take a value, without pflag's and strconv's words about it.
func cause(err error) error {
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
		err = bad.Unwrap()
	}
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		what := map[string]string{"ParseFloat": "a number", "ParseBool": "true or false"}[number.Func]
		return fmt.Errorf("want %s", cmp.Or(what, "a whole number"))
	}
	return err
}

// join makes a URL of a host and a port, and of an endpoint that is one.
func (h *hands) join(o *options) error {
	if h.address.host != "" || h.address.port != "" {
		host, port := cmp.Or(h.address.host, "127.0.0.1"), cmp.Or(h.address.port, "8000")
		h.address.host, h.address.port = "", ""
		if err := h.set(&alias{name: "host", flag: "url"}, host+":"+port); err != nil {
			return err
		}
	}
	if !strings.Contains(o.endpoint, "://") {
		return nil
	}
	if err := h.set(&alias{name: "endpoint", flag: "url"}, o.endpoint); err != nil {
		return err
	}
	return h.flags.Set("endpoint", "")
}

// asTyped gives a rate the gaps that it has in the tools that call it --request-rate.
func (h *hands) asTyped(o *options) error {
	given := h.flags.Changed
	if h.typed["rate"] != "--request-rate" || o.pacing.rate == rateMax || given("arrival") || given("burstiness") {
		return nil
	}
	h.note("--request-rate: the gaps are random (Poisson), as in AIPerf and vLLM's bench; --arrival constant makes them equal")
	return h.flags.Set("arrival", "poisson")
}

// inFileTime tells the offsets that are the file's own times from those that count from its earliest row.
func (h *hands) inFileTime(o *options) error {
	for _, flag := range []string{"from", "to"} {
		if h.typed[flag] != "" {
			o.read.FileTime = true
		}
	}
	for _, flag := range []string{"from", "to"} {
		if o.read.FileTime && h.flags.Changed(flag) && h.typed[flag] == "" {
			return fmt.Errorf("--%s counts from the earliest row, --fixed-schedule-start-offset and --fixed-schedule-end-offset are times of the file; give both ends of one kind", flag)
		}
	}
	return nil
}

// ourAPI finds it for trace-replayer's names, and for an endpoint that gives it away.
func (h *hands) ourAPI(o *options) error {
	theirs := (o.api == "openai" || o.api == "aibrix") && !slices.Contains(api.Names(), o.api)
	if !theirs && (h.flags.Changed("api") || h.profile) {
		return nil
	}
	chat := func(url string) bool { return strings.HasSuffix(strings.TrimSuffix(url, "/"), "/chat/completions") }
	completions := func(url string) bool { return strings.HasSuffix(url, "/completions") && !chat(url) }
	places := append([]string{o.endpoint}, o.urls...)
	switch {
	case slices.ContainsFunc(places, chat) && !slices.ContainsFunc(places, completions):
		return h.flags.Set("api", "chat")
	case theirs && slices.ContainsFunc(places, completions):
		return h.flags.Set("api", "completions")
	case theirs:
		return h.flags.Set("api", "chat")
	}
	return nil
}

// hubName is what the Hugging Face hub calls a model.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)

// tokenizer leaves out one that other tools need and that is not on this machine.
func (h *hands) tokenizer(o *options) {
	name := o.tokenizer
	if name == "" || o.proof.verify != "" || name == tokenizer.CL100K || name == tokenizer.O200K {
		return
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		return
	}
	if name == "builtin" {
		o.tokenizer = tokenizer.O200K // as AIPerf has it
		return
	}
	if h.profile || hubName.MatchString(name) && !strings.HasSuffix(name, ".json") || h.flags.Changed("tokenizer-config") {
		o.tokenizer = ""
		h.note("--tokenizer %s: no file or folder of this machine; it is not needed: prompts are proven on the server", name)
	}
}

// unlikeReplayer says where a trace-replayer's defaults are not ours; each of its command lines has a --tokenizer-config.
func (h *hands) unlikeReplayer() {
	given := h.flags.Changed
	if !given("tokenizer-config") {
		return
	}
	if !given("no-stream") {
		h.note("responses are streamed, which trace-replayer does with --stream only; --no-stream asks for whole ones")
	}
	if !given("duration") {
		h.note("the whole trace is replayed; trace-replayer ends after 60 s unless --time-in-secs says otherwise")
	}
}

// noteHands says what has become of the flags of other tools, and what a file has set.
func (r *replay) noteHands() {
	if r.o.config != "" {
		r.say.line("config: %s sets %s", r.o.config, orNothing(r.hands.fromFile))
	}
	for _, note := range r.hands.notes {
		r.note("%s", note)
	}
}

// orNothing lists flags, with their dashes.
func orNothing(flags []string) string {
	if len(flags) == 0 {
		return "nothing"
	}
	return "--" + strings.Join(flags, ", --")
}

// inTheirWords names the flags in an error as they were typed.
func (h *hands) inTheirWords(err error) error {
	if exit := (*exitError)(nil); err == nil || errors.As(err, &exit) {
		return err
	}
	text := err.Error()
	for own, typed := range h.typed {
		text = regexp.MustCompile(`--`+own+`([^a-z-]|$)`).ReplaceAllString(text, typed+"$1")
	}
	if text == err.Error() {
		return err
	}
	return &retold{text, err}
}

// retold is an error in other words.
type retold struct {
	text string
	err  error
}

func (r *retold) Error() string { return r.text }

func (r *retold) Unwrap() error { return r.err }
