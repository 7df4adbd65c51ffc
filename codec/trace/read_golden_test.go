package trace

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

var update = flag.Bool("update", false, "write testdata/golden/read.txt anew")

// namedFiles are files of testdata/golden/read.txt that other tests read too.
func namedFiles() map[string]string {
	return map[string]string{
		"@bailian": bailianFile, "@mooncake": mooncakeFile, "@azure": azureFile, "@burstgpt": burstFile, "@old burstgpt": oldBurstFile,
		"@raw": rawFile, "@inputs": inputsFile, "@genai": genAIFile, "@batch": batchFile, "@capture": captureFile(), "@graph": graphFile,
		"@single": singleFile, "@multi": multiFile, "@share": shareFile, "@verbatim": verbatimFile, "@tracelab": labFile, "@copilot": copilotFile,
		"@dag": dagFile, "@otel": otelFile, "@rollout": rolloutFile, "@satf": satfFile,
	}
}

// TestReading compares what is read of each file of testdata/golden/read.txt with what stands there behind it. A file follows
// its name and the options with which it is read.
func TestReading(t *testing.T) {
	text := string(must.Have(os.ReadFile("testdata/golden/read.txt"))(t))
	named := namedFiles()
	var all strings.Builder
	for section := range strings.SplitSeq(strings.TrimPrefix(text, "== "), "\n== ") {
		head, rest, _ := strings.Cut(section, "\n")
		file, want, _ := strings.Cut(rest, "\n=>\n")
		input := file + "\n"
		if known := named[file]; known != "" {
			input = known
		}
		got := "error: "
		if tr, err := Read(strings.NewReader(input), "t", optionsOf(t, head)); err != nil {
			got += err.Error() + "\n"
		} else {
			checkInvariants(t, tr)
			got = dump(tr)
		}
		if strings.TrimSpace(got) != strings.TrimSpace(want) && !*update {
			t.Errorf("%s\ngot\n%s\nwant\n%s", head, got, want)
		}
		fmt.Fprintf(&all, "== %s\n%s\n=>\n%s\n", head, file, got)
	}
	if *update {
		must.Do(t, os.WriteFile("testdata/golden/read.txt", []byte(all.String()), 0o644))
	}
}

// optionsOf are those behind a name.
func optionsOf(t *testing.T, head string) (o Options) {
	t.Helper()
	f := flag.NewFlagSet(head, flag.ContinueOnError)
	f.StringVar(&o.Format, "format", "", "")
	f.IntVar(&o.Limit, "limit", 0, "")
	f.IntVar(&o.BlockTokens, "block-tokens", 0, "")
	f.DurationVar(&o.TimeUnit, "time-unit", 0, "")
	f.DurationVar(&o.From, "from", 0, "")
	f.DurationVar(&o.To, "to", 0, "")
	f.BoolVar(&o.FileTime, "file-time", false, "")
	f.BoolVar(&o.Lenient, "drop", false, "")
	f.BoolVar(&o.Strict, "strict", false, "")
	f.Func("fields", "", func(list string) error {
		o.Fields = map[string]string{}
		for pair := range strings.SplitSeq(list, ",") {
			usual, name, _ := strings.Cut(pair, "=")
			o.Fields[usual] = name
		}
		return nil
	})
	_, options, _ := strings.Cut(head, " --")
	if options != "" {
		options = "--" + options
	}
	must.Do(t, f.Parse(strings.Fields(options)))
	return o
}

// dump is all that a trace has, but for its name: its columns, and a line for each request.
func dump(tr *Trace) string {
	var b strings.Builder
	for _, part := range []reflect.Value{reflect.ValueOf(*tr), reflect.ValueOf(tr.Agents)} {
		for i := range part.NumField() {
			f := part.Type().Field(i)
			if value := part.Field(i); f.IsExported() && !value.IsZero() && !slices.Contains([]string{"Name", "Lint", "Agents"}, f.Name) {
				fmt.Fprintf(&b, "%s: %v\n", f.Name, value)
			}
		}
	}
	waits, common := waits(tr), shared(tr)
	carries := tr.Carries(tr.TurnsBefore(tr.Len()))
	for i := range tr.Len() {
		v := tr.Verbatim(i)
		fmt.Fprintf(&b, "request %d: session %q", i, tr.SessionName(i))
		if ids := tr.Blocks(i); len(ids) > 0 {
			fmt.Fprintf(&b, " blocks %v, in common %s", ids, common[i])
		}
		if v.Kind != NoVerbatim {
			fmt.Fprintf(&b, " %s %s", [...]string{"", "text", "messages", "body"}[v.Kind], strings.Join(strings.Fields(string(v.Content)), " "))
		}
		for k, more := range [][]byte{v.Tools, v.Extra, tr.Answer(i)} {
			if more != nil {
				fmt.Fprintf(&b, " %s %s", [...]string{"tools", "extra", "answer"}[k], more)
			}
		}
		if waits[i] != "-" {
			fmt.Fprintf(&b, " waits %s", waits[i])
		}
		if len(carries) > 0 && carries[i].Of != NoTurn {
			fmt.Fprintf(&b, " carries %s", carried(tr, i, carries[i]))
		}
		b.WriteString("\n")
	}
	for _, note := range tr.Lint.Notes() {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}
