package compat

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/export"
)

// nameResults finds which files of other tools the command line asks for. What it gives no name has that of --export.
func (l *Line) nameResults() error {
	for _, name := range []string{"result-filename", "profile-export-file", "profile-export-prefix"} {
		text := l.last(name)
		if l.Given(name) && (text == "" || strings.HasSuffix(text, "/")) {
			return fmt.Errorf("--%s %q: want the name of a file", name, text)
		}
	}
	file := l.last("result-filename")
	saved := l.Given("save-result") || l.Given("append-result")
	switch {
	case file != "" && saved:
		l.Results = append(l.Results, export.Named{
			Tool:  "vllm",
			Paths: []string{file},
			InDir: l.Given("result-dir"),
		})
	case file != "":
		l.note("--result-filename %s: it is not written, as vLLM's bench writes it with --save-result only", file)
	case saved:
		l.addExport("vllm")
	}
	base := cmp.Or(l.last("profile-export-file"), l.last("profile-export-prefix"))
	end := filepath.Ext(base)
	if slices.Contains([]string{".jsonl", ".json", ".csv"}, end) {
		base = strings.TrimSuffix(base, end)
	}
	switch {
	case base != "":
		l.Results = append(l.Results, export.Named{
			Tool:  "aiperf",
			Paths: []string{base + ".jsonl", base + ".json"},
			InDir: true,
		})
	case l.Given("artifact-dir") || l.Given("output-artifact-dir"):
		l.addExport("aiperf")
	}
	return nil
}

// addExport adds a tool to --export, unless it is there.
func (l *Line) addExport(tool string) {
	own := l.Flags.Lookup("export").Value.(pflag.SliceValue)
	if !slices.Contains(own.GetSlice(), tool) {
		_ = own.Append(tool) // a list of texts takes any
	}
}
