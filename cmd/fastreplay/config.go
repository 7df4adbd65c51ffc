package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// entry is a flag as a file has it.
type entry struct {
	name   string
	line   int
	values []string
}

// readConfig sets the flags that a file names and that the command line does not; traced: it names the trace.
func (h *hands) readConfig(path string, traced bool) error {
	entries, err := h.entries(path)
	if err != nil {
		return err
	}
	onLine := map[string]bool{"trace": traced}
	h.flags.Visit(func(f *pflag.Flag) { onLine[f.Name] = true })
	ours := func(e entry) bool { return h.aliases[e.name] == nil }
	slices.SortStableFunc(entries, func(a, b entry) int { // an alias must find what our own flag has said
		switch {
		case ours(a) && !ours(b):
			return -1
		case ours(b) && !ours(a):
			return 1
		}
		return a.line - b.line
	})
	for _, e := range entries {
		if err := h.setEntry(e, onLine); err != nil {
			return fmt.Errorf("%s:%d: %w", path, e.line, err)
		}
	}
	slices.Sort(h.fromFile)
	return nil
}

// setEntry sets one flag, unless the command line has.
func (h *hands) setEntry(e entry, onLine map[string]bool) error {
	flag, a := e.name, h.aliases[e.name]
	if a != nil && a.flag != "" {
		flag = a.flag
	}
	if onLine[flag] || onLine[e.name] {
		return nil
	}
	for _, text := range e.values {
		if a != nil {
			if err := h.take(taken{a, text}); err != nil {
				return err
			}
		} else if err := h.flags.Set(e.name, text); err != nil {
			return fmt.Errorf("%s: %w", e.name, cause(err))
		}
	}
	if (a == nil || a.flag != "") && !slices.Contains(h.fromFile, flag) {
		h.fromFile = append(h.fromFile, flag)
	}
	return nil
}

// entries reads a file: a mapping of the names of flags to values, or to lists of them.
func (h *hands) entries(path string) ([]entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var doc, second yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("--config %s: %w", path, err)
	}
	if err := in.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("--config %s: a second YAML document; want one", path)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want lines such as `rate: 10`, the names of flags without their dashes", path, root.Line)
	}
	return h.mapped(path, root)
}

// mapped reads the pairs of a mapping.
func (h *hands) mapped(path string, root *yaml.Node) ([]entry, error) {
	var entries []entry
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		e, err := h.entryOf(key, node)
		if err == nil && slices.ContainsFunc(entries, func(o entry) bool { return o.name == e.name }) {
			err = fmt.Errorf("%s stands there twice; give it once, several values as a list", e.name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, key.Line, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// entryOf reads one pair.
func (h *hands) entryOf(key, node *yaml.Node) (entry, error) {
	e := entry{name: key.Value, line: key.Line}
	f := h.flags.Lookup(e.name)
	if key.Kind != yaml.ScalarNode || f == nil || e.name == "config" || e.name == "help" || e.name == "version" {
		return e, fmt.Errorf("unknown key %q%s", e.name, didYouMean(h.flags, e.name, ""))
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	list := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		if list = node.Content; !h.repeats(f) && len(list) != 1 {
			return e, fmt.Errorf("%s takes one value, not a list", e.name)
		}
	}
	for _, n := range list {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch {
		case n.Kind != yaml.ScalarNode:
			return e, fmt.Errorf("%s: want a value, or a list of values", e.name)
		case n.Tag == "!!null":
			return e, fmt.Errorf("%s has no value; give one, or true or false for a switch", e.name)
		}
		e.values = append(e.values, n.Value)
	}
	return e, nil
}

// repeats tells whether a flag may be given several times.
func (h *hands) repeats(f *pflag.Flag) bool {
	if a := h.aliases[f.Name]; a != nil {
		if a.flag == "" {
			return true
		}
		f = h.flags.Lookup(a.flag)
	}
	_, slice := f.Value.(pflag.SliceValue)
	return slice || f.Value.Type() == "stringToString"
}
