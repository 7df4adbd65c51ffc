package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// masked stands in results for what may be secret.
const masked = "***"

// resolved returns the flags that make this run again, under our names. They were given on the command line, by a file or by another
// tool's name, or the run chose them. Numbers and switches are JSON's own, and flags that repeat are lists. What may be secret is masked.
func (b *built) resolved() map[string]any {
	flags := resolvedFlags(b.o)
	flags["api"] = b.o.api
	if shown := b.shownModel(); shown == b.model && !b.asksNoModel() {
		flags["model"] = shown
	}
	var headers []string
	for _, h := range b.secrets {
		headers = append(headers, h.Name+": "+masked)
	}
	if delete(flags, "header"); headers != nil {
		flags["header"] = headers
	}
	return flags
}

// resolvedFlags are the flags that were given, by whatever name, with paths that do not depend on the working directory.
func resolvedFlags(o *options) map[string]any {
	flags := map[string]any{}
	o.line.Flags.VisitAll(func(f *pflag.Flag) {
		text := f.Value.String()
		if !f.Changed || text == "" || f.Name == "api-key" || f.Name == "dry-run" { // "": as of other tools' names
			return
		}
		switch f.Name {
		case "trace":
			flags[f.Name] = absolute(o.traces...)
		case "targets", "api-key-file", "ca-cert", "config", "output":
			flags[f.Name] = absolute(text)[0]
		case "tokenizer":
			if _, err := os.Stat(text); err == nil {
				text = absolute(text)[0]
			}
			flags[f.Name] = text
		case "endpoint":
			flags[f.Name] = withoutQuery(text)
		case "header": // in full in resolved, which has what is not from a flag
			flags[f.Name] = []string{}
		case "url", "scrape-url":
			flags[f.Name] = maskQueries(f.Value.(pflag.SliceValue).GetSlice())
		case "fields":
			var pairs []string
			for field, name := range o.read.Fields {
				pairs = append(pairs, field+"="+name)
			}
			slices.Sort(pairs)
			flags[f.Name] = pairs
		default:
			flags[f.Name] = flagValue(f)
		}
	})
	if len(o.traces) > 0 {
		flags["trace"] = absolute(o.traces...)
	}
	if o.read.FileTime { // ours count from the earliest row
		for _, end := range []struct {
			ours, theirs string
			at           time.Duration
		}{{"from", "fixed-schedule-start-offset", o.read.From}, {"to", "fixed-schedule-end-offset", o.read.To - 1}} {
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
	_, number := strconv.ParseFloat(text, 64)
	if number == nil && f.Value.Type() != "string" && json.Valid([]byte(text)) || f.Value.Type() == "bool" {
		return json.RawMessage(text)
	}
	return text
}

func absolute(paths ...string) (out []string) {
	for _, path := range paths {
		if full, err := filepath.Abs(path); err == nil && path != "-" && !strings.HasPrefix(path, compat.Made) {
			path = full
		}
		out = append(out, path)
	}
	return out
}

func maskQueries(urls []string) (out []string) {
	for _, url := range urls {
		out = append(out, withoutQuery(url))
	}
	return out
}

// withoutQuery masks the query of a URL or a path.
func withoutQuery(url string) string {
	if path, _, secret := strings.Cut(url, "?"); secret {
		return path + "?" + masked
	}
	return url
}

// known is all that is known before the start.
func (b *built) known() *report.Plan {
	return &report.Plan{
		Schema: metrics.Schema, Run: b.runInfo(metrics.Run{StartedAt: time.Now().UTC()}), Workload: b.workloadInfo(nil), Load: b.size(),
		WireBytes: b.Prebuilt.Bytes(), Limits: b.o.limits, Notes: b.ui.notes,
	}
}

// unmask takes masked headers out of a file's settings and returns their names.
func unmask(file []compat.Setting) (headers []string) {
	for i := range file {
		if s := &file[i]; s.Name == "header" {
			s.Values = slices.DeleteFunc(s.Values, func(text string) bool {
				name, secret := strings.CutSuffix(text, ": "+masked)
				if secret {
					headers = append(headers, name)
				}
				return secret
			})
		}
	}
	return headers
}

// checkMasked refuses a run whose file masks what the command line and the environment do not give.
func (o *options) checkMasked(secrets []http1.Header) error {
	for _, name := range o.masked {
		if slices.ContainsFunc(secrets, func(h http1.Header) bool { return strings.EqualFold(h.Name, name) }) {
			continue
		}
		how := fmt.Sprintf("--header \"%s: …\"", name)
		if strings.EqualFold(name, "Authorization") {
			how = "OPENAI_API_KEY or --api-key-file"
		}
		return fmt.Errorf("--config %s: that run sent the header %s, and no file of results has its value; give it again with %s", o.config, name, how)
	}
	for _, name := range o.line.FromFile {
		if s, ok := o.line.Flags.Lookup(name).Value.(pflag.SliceValue); ok && slices.ContainsFunc(s.GetSlice(), func(text string) bool { return strings.HasSuffix(text, "?"+masked) }) ||
			strings.HasSuffix(o.line.Flags.Lookup(name).Value.String(), "?"+masked) {
			return fmt.Errorf("--config %s: the query of --%s is masked there, for it may be secret; give --%s again", o.config, name, name)
		}
	}
	return nil
}
