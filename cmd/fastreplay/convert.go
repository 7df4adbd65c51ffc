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

// newConvertCommand writes a trace in another format.
func newConvertCommand() *cobra.Command {
	var read trace.Options
	var to, output, model, keyFile, tokens string
	var kept []string
	var seed uint64
	var amplify setup.Amplify
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
		RunE: func(c *cobra.Command, paths []string) error {
			if keyFile != "" {
				to = cmp.Or(to, trace.Own)
			}
			if to == "" {
				return fmt.Errorf("no format to write; give one with --format: %s", strings.Join(trace.Written(), ", "))
			}
			t, err := trace.OpenAll(paths, read)
			if err != nil {
				return err
			}
			from := t.Format
			var said []string
			if keyFile != "" || to == trace.Own && t.Verbatims() > 0 {
				t, said, err = keyed.Hash(t, keyFile, keyed.Options{
					Tokenizer: tokens,
					Lenient:   read.Lenient,
					Version:   buildVersion(),
					Keep:      kept,
				})
			} else if len(kept) > 0 {
				return errors.New("--keep is for text that becomes ids of blocks; this trace has none, and " +
					"keeps whose its requests are: leave --keep out")
			} else {
				var counted string
				t, counted, err = setup.CountAnswers(t, tokens)
				said = append(said, counted)
			}
			if err != nil {
				return err
			}
			rows := t.Len()
			t, amplified, err := amplify.Apply(t, seed)
			if err != nil {
				return err
			}
			t, lost, err := inWords(t, to, seed, model)
			if err != nil {
				return err
			}
			if err := writeTrace(output, c.OutOrStdout(), t, to); err != nil {
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
			say.line(
				"converted: %s of %s rows, %s to %s",
				format.Count(rows),
				format.Count(t.FileRows),
				from,
				to,
			)
			return nil
		},
	}
	f := c.Flags()
	f.SortFlags = false
	addWords(f, &to, "format", "format to write: "+strings.Join(trace.Written(), ", "), trace.Written()...)
	f.StringVarP(&output, "output", "o", "", "`FILE` to write (default: standard output); never overwritten")
	addWords(f, &read.Format, "input-format", "format to read (default: detected)", trace.Formats()...)
	f.StringVar(&keyFile, "key-file", "",
		"`FILE` with the key by which text becomes ids of blocks, or new:FILE, which makes one (default: a key that "+
			"is thrown away)")
	keepFlag(f, &kept, "")
	f.StringVar(&tokens, "tokenizer", "",
		"`PATH` of the model's tokenizer.json, or a built-in one, which counts the tokens of prompts and answers")
	f.StringVar(&model, "model", setup.UnprobedModel, "model that whole bodies ask for, where the trace has none")
	f.Uint64Var(
		&seed,
		"seed",
		0,
		"seed of --amplify, and of the words of prompts and answers that the trace only has numbers of tokens of",
	)
	addRowFlags(f, &read)
	addAmplify(f, &amplify)
	return c
}
