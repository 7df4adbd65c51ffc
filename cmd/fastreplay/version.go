package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// What scripts/release sets by the linker; empty in other builds.
var version, commit, date string

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, its commit and its date",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "fastreplay version", aboutBuild())
			return err
		},
	}
}

// source says from which source a program was made. Parts that are unknown are empty.
type source struct{ version, commit, date string }

// thisSource returns what the linker set, and for the rest what Go noted: of the checkout (go build), or of the module (go install).
func thisSource() source {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return source{version, commit, date}.completed(info)
}

// completed fills the parts of s that are empty from info.
func (s source) completed(info *debug.BuildInfo) source {
	noted := map[string]string{}
	for _, setting := range info.Settings {
		noted[setting.Key] = setting.Value
	}
	const shortHash = 12 // digits of a commit, as Go's pseudo-versions have them
	revision := noted["vcs.revision"][:min(shortHash, len(noted["vcs.revision"]))]
	if noted["vcs.modified"] == "true" {
		revision += "+dirty"
	}
	module := info.Main.Version
	if module == "(devel)" {
		module = ""
	}
	return source{cmp.Or(s.version, module, "dev"), cmp.Or(s.commit, revision), cmp.Or(s.date, noted["vcs.time"])}
}

// aboutBuild is the version with what it was made of.
func aboutBuild() string {
	b := thisSource()
	parts := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if b.date != "" {
		parts = slices.Insert(parts, 0, b.date)
	}
	if b.commit != "" {
		parts = slices.Insert(parts, 0, "commit "+b.commit)
	}
	return fmt.Sprintf("%s (%s)", b.version, strings.Join(parts, ", "))
}

// buildVersion is the release, or what Go noted of the module; "dev" if neither is known.
func buildVersion() string { return thisSource().version }
