package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/replay"
	"github.com/fastreplay/fastreplay/engine/report"
)

// reporting is what the flags of report say.
type reporting struct {
	requirements
	json, full, quiet bool
	exports           []string
	html, picture     string
	goodput           goodput
	part              report.Part
	price             float64
	gpus, kvBytes     int64
}

// newReportCommand prints what an earlier run found, from its files alone.
func newReportCommand() *cobra.Command {
	o := &reporting{}
	c := &cobra.Command{
		Use:   "report [DIR]",
		Short: "Print the summary of a run from its results on disk",
		Long: `Print the summary of a run from its results on disk.

DIR is the output directory of a run (default: the newest below results). If the run was
killed and left no summary, one is made of the records that are on disk. With --goodput
the SLOs are these and not the run's own, and requests are counted again by their records.
With --require the objectives are these: exit code 3 if one is missed, 4 if values are too
few to tell, 1 if the run is INVALID.
With --from, --to or --steady all numbers are of a part of the run.`,
		Example: `  fastreplay report
  fastreplay report results/2026-01-02T150405Z --full
  fastreplay report results/2026-01-02T150405Z --goodput "ttft:300 tpot:30"
  fastreplay report results/2026-01-02T150405Z --html report.html
  fastreplay report --steady --price-per-hour 12 --gpus 8
  fastreplay report results/2026-01-02T150405Z --export vllm`,
		Args: cobra.ArbitraryArgs,
		RunE: o.run,
	}
	f := c.Flags()
	f.BoolVar(&o.full, "full", false, "print all that the summary has, and not one screen of it")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only the verdict, where the results are, and errors")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.StringVar(&o.html, "html", "",
		"also write a self-contained HTML page, with what happened by time, to `FILE`")
	f.StringVar(&o.picture, "picture", "",
		"also write a graph of the page to this `FILE`, which is called as the graph: ttft.svg, ttft-distribution.svg")
	addExportFlag(f, &o.exports)
	o.goodput.addFlag(f)
	o.requirements.addFlag(f)
	addSeconds(f, &o.part.From, "from", "", 0,
		"count what was planned from this `TIME` on, since the run's start")
	addSeconds(f, &o.part.To, "to", "", 0, "count what was planned before this `TIME`; 0 = to the end")
	addValue(f, &o.part.Steady, parseShare, "", "", "steady",
		"count the longest part with requests in flight within `BAND` of their median, 20% if none is given")
	f.Lookup("steady").NoOptDefVal = "20%"
	f.Float64Var(&o.price, "price-per-hour", 0,
		"`PRICE` of all servers together for an hour, in any currency: what tokens, requests and jobs cost")
	f.Int64Var(&o.gpus, "gpus", 0,
		"`N` GPUs of all servers together, if server metrics do not tell: throughput of one")
	f.Int64Var(&o.kvBytes, "kv-bytes", 0,
		"`N` bytes of one token in the cache, as for inspect: bytes a second that each tier gave")
	return c
}

func (o *reporting) run(c *cobra.Command, args []string) error {
	if o.picture != "" && !strings.HasSuffix(o.picture, ".svg") {
		return fmt.Errorf("--picture %s: want a file such as ttft.svg; a page saves graphs as PNG", o.picture)
	}
	unknown := export.Check(o.exports)
	if unknown != nil {
		unknown = fmt.Errorf("--export: %w", unknown)
	}
	slos, err := o.goodput.parse()
	if err = errors.Join(err, o.check(), unknown, o.checkPart(c.Flags(), args)); err != nil {
		return err
	}
	dir, err := runNamed(args)
	if err != nil {
		return err
	}
	s, err := report.LoadPart(dir, o.part, slos...)
	if err != nil {
		return err
	}
	s.Price(o.price)
	s.ByGPU(o.gpus)
	if err := s.SetKVBytes(o.kvBytes); err != nil {
		return fmt.Errorf("--kv-bytes: %w", err)
	}
	if err = cmp.Or(o.judgeAgain(dir, s), o.checkRecords(dir, s)); err != nil {
		return err
	}
	say := newTerminal(c.ErrOrStderr())
	screen := newTerminal(c.OutOrStdout())
	say.quiet = o.quiet
	screen.quiet = o.quiet
	if err := o.write(dir, s, say); err != nil {
		return err
	}
	say.annotate(report.Annotations(s)...)
	if o.json {
		return errors.Join(report.EncodeJSON(c.OutOrStdout(), s), o.ending(s))
	}
	print := report.PrintOptions{Dir: dir, Page: o.html, Steps: report.Steps(dir)}
	// which is of the whole run
	if page := filepath.Join(dir, report.PageName); o.html == "" && s.Window == nil && report.Exists(page) {
		print.Page = page
	}
	return errors.Join(screen.summary(s, o.full, print), o.ending(s))
}

// write writes the files that are asked for.
func (o *reporting) write(dir string, s *metrics.Summary, say *terminal) error {
	err := replay.WriteExports(dir, o.exports, s, func(text string) { say.line("%s", text) })
	switch {
	case errors.Is(err, export.ErrExists): // a file in the way is the user's to mend
		return err
	case err != nil:
		return exitWith(exitInvalid, "%v", err)
	}
	if o.html != "" {
		write := func(w io.Writer) error { return report.HTML(w, dir, s) }
		if err := report.WriteWhole(o.html, write); err != nil {
			return err
		}
		say.line("written: %s", o.html)
	}
	if o.picture != "" {
		name := strings.TrimSuffix(filepath.Base(o.picture), ".svg")
		write := func(w io.Writer) error { return report.Picture(w, dir, s, name) }
		if err := report.WriteWhole(o.picture, write); err != nil {
			return fmt.Errorf("--picture: %w", err)
		}
		say.line("written: %s", o.picture)
	}
	return nil
}

// checkPart refuses parts of a run that cannot be, and numbers of servers.
func (o *reporting) checkPart(f *pflag.FlagSet, args []string) error {
	part := &o.part
	switch {
	case part.Steady > 0 && len(args) > 0 && strings.HasSuffix(args[len(args)-1], "%"):
		return errors.New("--steady takes its band behind an equals sign: --steady=" + args[len(args)-1])
	case f.Changed("steady") && !(part.Steady > 0 && part.Steady < 1):
		return fmt.Errorf("--steady %s: want a share above 0 and below 100%%, such as 20%%", f.Lookup("steady").Value)
	case part.Steady > 0 && part.From+part.To > 0:
		return errors.New("--steady finds the part by itself; leave --from and --to out")
	case part.To > 0 && part.To <= part.From:
		return fmt.Errorf("--to %v is not after --from %v", part.To, part.From)
	case *part != report.Part{} && f.Changed("export"):
		return errors.New("--export writes the whole run; leave out --from, --to and --steady")
	case f.Changed("price-per-hour") && !(o.price > 0 && o.price <= math.MaxFloat64):
		return fmt.Errorf("--price-per-hour %v: want a number above 0", o.price)
	case f.Changed("gpus") && o.gpus < 1:
		return fmt.Errorf("--gpus %d: want a number above 0", o.gpus)
	case f.Changed("kv-bytes") && o.kvBytes < 1:
		return fmt.Errorf("--kv-bytes %d: want the bytes of one token in the cache", o.kvBytes)
	}
	return nil
}

// runNamed returns the directory of the run that is to be shown: the one given, or the newest below results.
func runNamed(args []string) (string, error) {
	if len(args) > 1 {
		return "", fmt.Errorf(
			"report shows one run, and %d are given; to compare them: fastreplay compare %s",
			len(args), strings.Join(args, " "),
		)
	}
	if len(args) == 0 {
		runs, err := report.Runs(report.DefaultRoot)
		if err != nil || len(runs) == 0 {
			return "", fmt.Errorf(
				"no run below %s here; give the directory of one: fastreplay report DIR",
				report.DefaultRoot,
			)
		}
		return runs[0], nil
	}
	return runAt(args[0])
}

// runAt returns a directory that a user gave, unless it is plain that it is not that of one run.
func runAt(dir string) (string, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read results: %w", err)
	case !info.IsDir() && report.Exists(filepath.Join(filepath.Dir(dir), report.RequestsName)):
		return "", fmt.Errorf("%s is a file of a run; give its directory, %s", dir, filepath.Dir(dir))
	case !info.IsDir():
		return "", fmt.Errorf(
			"%s is a file, and not the directory of a run; a trace is shown by `fastreplay inspect %s`",
			dir, dir,
		)
	}
	if _, ok := report.IsRun(dir); ok {
		return dir, nil
	}
	runs, err := report.Runs(dir)
	if err != nil || len(runs) == 0 {
		return dir, nil // Load says what is missing
	}
	var names []string
	for _, run := range runs[:min(len(runs), 5)] {
		at, _ := report.IsRun(run)
		names = append(names, fmt.Sprintf("%s (%s)", run, at.UTC().Format(time.DateTime)))
	}
	return "", fmt.Errorf(
		"%s has %s; give the directory of one; the newest: %s",
		dir, format.Many(len(runs), "run"), strings.Join(names, ", "),
	)
}
