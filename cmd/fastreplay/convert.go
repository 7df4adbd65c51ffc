package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
)

// conversion is what the flags of convert say.
type conversion struct {
	read    trace.Options
	format  string
	output  string
	model   string
	seed    uint64
	amplify amplifyFlag
}

// newConvertCommand writes a trace in another format.
func newConvertCommand() *cobra.Command {
	v := &conversion{}
	c := &cobra.Command{
		Use:   "convert TRACE…",
		Short: "Write a trace in another format",
		Long: `Read a trace as a replay would and print it in another format, or write it to
--output. Several traces of one format are merged in time. Rows are in order of arrival, and the first is at time 0. What was
repaired or left out, and what the other format has no place for, is noted.`,
		Example: `  fastreplay convert azure.csv --format mooncake --output azure.jsonl
  fastreplay convert chat.jsonl.zst --from 10m --to 20m --format bailian | zstd > part.jsonl.zst`,
		Args: someTraces,
		RunE: func(c *cobra.Command, args []string) error { return v.run(c, args) },
	}
	f := c.Flags()
	f.SortFlags = false
	addWords(f, &v.format, "format", "", "format to write: "+strings.Join(trace.Written(), ", "), trace.Written()...)
	f.StringVarP(&v.output, "output", "o", "", "`FILE` to write (default: standard output); never overwritten")
	addWords(f, &v.read.Format, "input-format", "", "format to read (default: detected)", trace.Formats()...)
	f.StringVar(&v.model, "model", unprobedModel, "model that whole bodies ask for, where the trace has none")
	f.Uint64Var(&v.seed, "seed", 0, "seed of --amplify, and of the words of prompts and answers that the trace only has numbers of tokens of")
	addRowFlags(f, &v.read)
	v.amplify.addFlag(f)
	return c
}

func (v *conversion) run(c *cobra.Command, paths []string) error {
	if v.format == "" {
		return fmt.Errorf("no format to write; give one with --format: %s", strings.Join(trace.Written(), ", "))
	}
	t, err := trace.OpenAll(paths, v.read)
	if err != nil {
		return err
	}
	t, counted, err := countAnswers(t, "")
	if err != nil {
		return err
	}
	read := t.Len()
	t, amplified, err := v.amplify.apply(t, v.seed)
	if err != nil {
		return err
	}
	t, lost, err := inWords(t, v.format, v.seed, v.model)
	if err != nil {
		return err
	}
	if err := writeTrace(v.output, c.OutOrStdout(), t, v.format); err != nil {
		return err
	}
	say := newTerminal(c.ErrOrStderr())
	if counted != "" {
		lost = append(lost, counted)
	}
	for _, note := range append(t.Lint.Notes(), lost...) {
		say.line("note: %s", note)
	}
	say.amplified(amplified)
	say.line("converted: %s of %s rows, %s to %s", format.Count(int64(read)), format.Count(int64(t.FileRows)), t.Format, v.format)
	return nil
}
