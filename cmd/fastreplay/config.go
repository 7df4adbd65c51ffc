package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// ownFile is what a run.json or summary.json has of the run that wrote it.
type ownFile struct {
	Run      struct{ Options yaml.Node }
	Workload struct{ Fingerprint string }
}

// readConfig reads a file of flags: a mapping of their names to values, or to lists of them. Without --config there is
// none, and a run's directory is its run.json. A run.json or summary.json has the flags of its run, and own has the
// fingerprint of what it sent; nil of any other file.
func readConfig(path string, flags *pflag.FlagSet) (file []compat.Setting, own *ownFile, err error) {
	if !flags.Changed("config") {
		return nil, nil, nil
	}
	if err := checkNotEmpty("config", path); err != nil {
		return nil, nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, report.PlanName)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--config: %w", err)
	}
	var doc yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("--config %s: %w", path, err)
	case !errors.Is(in.Decode(new(yaml.Node)), io.EOF):
		return nil, nil, fmt.Errorf("--config %s: a second YAML document; want one", path)
	}
	root := doc.Content[0]
	results := &ownFile{}
	switch {
	case doc.Decode(results) == nil && results.Run.Options.Kind == yaml.MappingNode:
		root = &results.Run.Options
		own = results
	case slices.Contains([]string{report.PlanName, report.SummaryName}, filepath.Base(path)):
		return nil, nil, fmt.Errorf("--config %s: it lacks run.options, so it is no file of results", path)
	}
	switch {
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil, nil, nil
	case root.Kind != yaml.MappingNode:
		return nil, nil, fmt.Errorf(
			"%s:%d: want lines such as `rate: 10`, the names of flags without their dashes",
			path, root.Line,
		)
	}
	for pair := range slices.Chunk(root.Content, 2) {
		s := compat.Setting{Name: pair[0].Value, Place: fmt.Sprintf("%s:%d", path, pair[0].Line)}
		switch {
		case pair[0].Kind != yaml.ScalarNode || flags.Lookup(s.Name) == nil ||
			slices.Contains([]string{"config", "help", "version"}, s.Name):
			err = fmt.Errorf("unknown key %q%s", s.Name, nearestFlag(flags, s.Name, ""))
		case own != nil && s.Name == "api-key-file": // a stranger's results send no file, and run no command
			continue
		case own != nil && s.Name != "header" && slices.Contains(strings.Fields(takenByEachRun), s.Name):
			err = fmt.Errorf("%s: results do not have it; give it on the command line", s.Name)
		case slices.ContainsFunc(file, func(o compat.Setting) bool { return o.Name == s.Name }):
			err = fmt.Errorf("%s stands there twice; give it once, several values as a list", s.Name)
		default:
			s.Values, err = configValues(s.Name, pair[1])
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.Place, err)
		}
		file = append(file, s)
	}
	return file, own, nil
}

// configValues reads a value or a list of values.
func configValues(name string, node *yaml.Node) (values []string, err error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	list := []*yaml.Node{node}
	none := fmt.Errorf("%s has no value; give one, or true or false for a switch", name)
	if node.Kind == yaml.SequenceNode {
		list = node.Content
	}
	if len(list) == 0 {
		return nil, none
	}
	for _, n := range list {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch {
		case n.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("%s: want a value, or a list of values", name)
		case n.Tag == "!!null":
			return nil, none
		}
		values = append(values, n.Value)
	}
	return values, nil
}

// resolvedFlags are the flags that were given, by whatever name, with paths that do not depend on the working
// directory.
func resolvedFlags(o *options) map[string]any {
	flags := map[string]any{}
	o.line.Flags.VisitAll(func(f *pflag.Flag) {
		text := f.Value.String()
		taken := slices.Contains(strings.Fields(takenByEachRun), f.Name)
		if !f.Changed || text == "" || taken { // "": as of other tools' names
			return
		}
		switch f.Name {
		case "targets":
			file, watched := strings.CutPrefix(text, setup.WatchPrefix)
			flags[f.Name] = absolute(file)
			if strings.HasPrefix(text, setup.DNSPrefix) {
				flags[f.Name] = text
			}
			if watched {
				flags[f.Name] = setup.WatchPrefix + absolute(file)
			}
		case "api-key-file", "ca-cert", "tokenizer":
			flags[f.Name] = absolute(text)
		case "endpoint":
			flags[f.Name] = withoutQuery(text)
		case "url", "scrape-url":
			flags[f.Name] = each(f.Value.(pflag.SliceValue).GetSlice(), withoutQuery)
		case "extra-inputs":
			flags[f.Name] = each(o.extraInputs, o.Hide())
		case "fields":
			flags[f.Name] = strings.Trim(text, "[]")
		default:
			flags[f.Name] = flagValue(f)
		}
	})
	if len(o.Traces) > 0 {
		flags["trace"] = each(o.Traces, absolute)
	}
	if o.Read.FileTime { // ours count from the earliest row
		for _, end := range []struct {
			ours, theirs string
			at           time.Duration
		}{{"from", "fixed-schedule-start-offset", o.Read.From}, {"to", "fixed-schedule-end-offset", o.Read.To - 1}} {
			if flags[end.ours] != nil {
				flags[end.theirs] = json.RawMessage(strconv.FormatFloat(float64(end.at)/1e6, 'f', -1, 64))
				delete(flags, end.ours)
			}
		}
	}
	return flags
}

// flagValue returns what a flag has, as JSON writes it.
func flagValue(f *pflag.Flag) any {
	if s, ok := f.Value.(pflag.SliceValue); ok {
		return s.GetSlice()
	}
	text := f.Value.String()
	if f.Value.Type() != "string" && json.Valid([]byte(text)) { // a number or a switch
		return json.RawMessage(text)
	}
	return text
}

func each(texts []string, change func(string) string) (out []string) {
	for _, text := range texts {
		out = append(out, change(text))
	}
	return out
}

// absolute returns the whole path of a file. What is none, such as "-" or a trace that is made, stays as it is.
func absolute(path string) string {
	full, err := filepath.Abs(path)
	if _, none := os.Stat(path); err != nil || none != nil {
		return path
	}
	return full
}

// withoutQuery masks the query of a URL or a path.
func withoutQuery(url string) string {
	if path, _, secret := strings.Cut(url, "?"); secret {
		return path + "?" + setup.Masked
	}
	return url
}

// unmask takes setup.Masked headers out of a file's settings and returns their names.
func unmask(file []compat.Setting) (headers []string) {
	for i := range file {
		if s := &file[i]; s.Name == "header" {
			s.Values = slices.DeleteFunc(s.Values, func(text string) bool {
				name, secret := strings.CutSuffix(text, ": "+setup.Masked)
				if secret {
					headers = append(headers, name)
				}
				return secret
			})
		}
	}
	return headers
}

// checkMasked refuses values that a file of results has masked, and that the command line does not give.
func (o *options) checkMasked() error {
	for _, name := range o.line.FromFile {
		value := o.line.Flags.Lookup(name).Value.String()
		if name == "extra-inputs" && strings.Contains(value, setup.Masked) {
			return fmt.Errorf(
				"--config %s: a key in --%s is masked there; give all of --%s again",
				o.config, name, name,
			)
		}
		if strings.Contains(value, "?"+setup.Masked) {
			return fmt.Errorf(
				"--config %s: the query of --%s is masked there, for it may be secret; give --%s again",
				o.config, name, name,
			)
		}
	}
	return nil
}
