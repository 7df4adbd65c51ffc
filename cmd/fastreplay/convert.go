package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/keyed"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// conversion is what the flags of convert say.
type conversion struct {
	read               trace.Options
	to, output         string
	model              string
	keyFile, tokenizer string
	kept               []string
	seed               uint64
	amplify            setup.Amplify
}

// newConvertCommand writes a trace in another format.
func newConvertCommand() *cobra.Command {
	o := &conversion{}
	c := &cobra.Command{
		Use:   "convert TRACE…",
		Short: "Write a trace in another format",
		Long: `Read a trace as a replay would and print it in another format, or write it to
--output. Several traces of one format are merged in time. Rows are in order of arrival, and the
first is at time 0. What was repaired or left out, and what the other format has no place for, is noted.`,
		Example: `  fastreplay convert azure.csv --format mooncake --output azure.jsonl
  fastreplay convert chat.jsonl.zst --from 10m --to 20m --format bailian \
    | zstd > part.jsonl.zst`,
		Args: someTraces,
		RunE: o.run,
	}
	f := c.Flags()
	f.SortFlags = false
	addWords(f, &o.to, "format", "format to write: "+strings.Join(trace.Written(), ", "), trace.Written()...)
	f.StringVarP(&o.output, "output", "o", "", "`FILE` to write (default: standard output); never overwritten")
	addWords(f, &o.read.Format, "input-format", "format to read (default: detected)", trace.Formats()...)
	f.StringVar(&o.keyFile, "key-file", "",
		"`FILE` with the key by which text becomes ids of blocks, or new:FILE, which makes one (default: a key that "+
			"is thrown away)")
	keepFlag(f, &o.kept, "")
	f.StringVar(&o.tokenizer, "tokenizer", "",
		"`PATH` of the model's tokenizer.json, or a built-in one, which counts the tokens of prompts and answers")
	f.StringVar(&o.model, "model", setup.UnprobedModel, "model that whole bodies ask for, where the trace has none")
	f.Uint64Var(
		&o.seed,
		"seed",
		0,
		"seed of --amplify, and of the words of prompts and answers that the trace only has numbers of tokens of",
	)
	addRowFlags(f, &o.read)
	addAmplify(f, &o.amplify)
	return c
}

func (o *conversion) run(c *cobra.Command, paths []string) error {
	if o.keyFile != "" {
		o.to = cmp.Or(o.to, trace.Own)
	}
	if o.to == "" {
		return fmt.Errorf("no format to write; give one with --format: %s", strings.Join(trace.Written(), ", "))
	}
	t, err := trace.OpenAll(paths, o.read)
	if err != nil {
		return err
	}
	from := t.Format
	t, said, err := o.withoutText(t)
	if err != nil {
		return err
	}
	rows := t.Len()
	t, amplified, err := o.amplify.Apply(t, o.seed)
	if err != nil {
		return err
	}
	t, lost, err := inWords(t, o.to, o.seed, o.model)
	if err != nil {
		return err
	}
	if err := writeTrace(o.output, c.OutOrStdout(), t, o.to); err != nil {
		return err
	}
	say := newTerminal(c.ErrOrStderr())
	for _, note := range slices.Concat(t.Lint.Notes(), []string{t.ModelsNote()}, lost, said) {
		if note != "" {
			say.line("note: %s", note)
		}
	}
	if amplified != nil {
		say.line("%s", inspect.Amplified(amplified, say.width))
	}
	say.line("converted: %s of %s rows, %s to %s", format.Count(rows), format.Count(t.FileRows), from, o.to)
	return nil
}

// withoutText makes ids of blocks of a trace's text, if it is to have none. Else it counts recorded answers. It returns
// notes.
func (o *conversion) withoutText(t *trace.Trace) (out *trace.Trace, said []string, err error) {
	switch {
	case o.keyFile != "" || o.to == trace.Own && t.Verbatims() > 0:
		return keyed.Hash(t, o.keyFile, keyed.Options{
			Tokenizer: o.tokenizer,
			Lenient:   o.read.Lenient,
			Version:   buildVersion(),
			Keep:      o.kept,
		})
	case len(o.kept) > 0:
		return nil, nil, errors.New("--keep is for text that becomes ids of blocks; this trace has none, and " +
			"keeps whose its requests are: leave --keep out")
	}
	out, counted, err := setup.CountAnswers(t, o.tokenizer)
	return out, []string{counted}, err
}
