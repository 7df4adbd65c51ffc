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

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
)

// readConfig reads a file of flags: a mapping of their names to values, or to lists of them. The path "" is no file. A run.json or
// summary.json has the flags of its run, and the fingerprint of what it sent; "" of any other file.
func readConfig(path string, flags *pflag.FlagSet) (file []compat.Setting, fingerprint string, err error) {
	if path == "" {
		return nil, "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("--config: %w", err)
	}
	var doc, second yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("--config %s: %w", path, err)
	}
	if err := in.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("--config %s: a second YAML document; want one", path)
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil, "", nil
	case root.Kind != yaml.MappingNode:
		return nil, "", fmt.Errorf("%s:%d: want lines such as `rate: 10`, the names of flags without their dashes", path, root.Line)
	}
	own := member(member(root, "run"), "options")
	if own != nil && own.Kind == yaml.MappingNode {
		if f := member(member(root, "workload"), "fingerprint"); f != nil {
			fingerprint = f.Value
		}
		root = own
	}
	for pair := range slices.Chunk(root.Content, 2) {
		if own != nil && (pair[0].Value == "config" || pair[0].Value == "output") {
			continue
		}
		s := compat.Setting{Name: pair[0].Value, Place: fmt.Sprintf("%s:%d", path, pair[0].Line)}
		switch {
		case pair[0].Kind != yaml.ScalarNode || flags.Lookup(s.Name) == nil || slices.Contains([]string{"config", "help", "version"}, s.Name):
			err = fmt.Errorf("unknown key %q%s", s.Name, nearestFlag(flags, s.Name, ""))
		case slices.ContainsFunc(file, func(o compat.Setting) bool { return o.Name == s.Name }):
			err = fmt.Errorf("%s stands there twice; give it once, several values as a list", s.Name)
		default:
			s.Values, err = configValues(s.Name, pair[1])
		}
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", s.Place, err)
		}
		file = append(file, s)
	}
	return file, fingerprint, nil
}

// member returns the value of a key in a mapping; nil if n is none or does not have it.
func member(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for pair := range slices.Chunk(n.Content, 2) {
		if pair[0].Value == key {
			return pair[1]
		}
	}
	return nil
}

// configValues reads a value or a list of values.
func configValues(name string, node *yaml.Node) (values []string, err error) {
	node = aliased(node)
	list := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		list = node.Content
	}
	for _, n := range list {
		switch n = aliased(n); {
		case n.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("%s: want a value, or a list of values", name)
		case n.Tag == "!!null":
			return nil, fmt.Errorf("%s has no value; give one, or true or false for a switch", name)
		}
		values = append(values, n.Value)
	}
	return values, nil
}

// aliased returns the node that a YAML alias stands for.
func aliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
