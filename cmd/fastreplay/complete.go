package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/bench/mockllm"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/sched"
)

// flagValues are the words that flags take, for the shell to complete.
func flagValues() map[string][]string {
	arrivals := []string{string(sched.Constant), string(sched.Poisson), string(sched.Gamma) + ":"}
	switches := []string{"auto", "on", "off"}
	return map[string][]string{
		"api": api.Names(), "route": routes(), "format": trace.Formats(), "input-format": trace.Formats(), "arrival": arrivals,
		"sessions": {string(sessionsStrict), string(sessionsGated), string(sessionsThink)}, "history": {historyRecorded, historyLive},
		"cold":   {string(probe.ColdAuto), string(probe.ColdFlush), string(probe.ColdSalt), string(probe.ColdOff)},
		"prompt": {promptTokenIDs, promptText}, "too-long": {tooLongRefuse, tooLongDrop, tooLongClip},
		"bad-rows": {badRowsRefuse, badRowsDrop, badRowsStrict}, "export": export.Names(), "time-unit": {"ns", "us", "ms", "s"},
		"resend": {string(engine.ResendNever), string(engine.ResendUnread), string(engine.ResendSafe)}, "scrape": switches,
		"realtime": switches, "kernel-timestamps": append(switches, stampsSent), "rate": {rateMax}, "progress": {"auto", "full", "line", "none"},
		"fault": mockllm.FaultNames(),
	}
}

// completeValues lets the shell complete what stands behind flags and commands.
func completeValues(root *cobra.Command) {
	values, traces := flagValues(), []string{"jsonl", "json", "csv", "gz", "zst"}
	files := map[string][]string{"trace": traces, "config": {"yaml", "yml", "json"}, "ca-cert": {"pem", "crt"}, "html": {"html"}}
	for _, c := range append(root.Commands(), root) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if c.Flags().Lookup(name) != nil {
				must(c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values[name], cobra.ShellCompDirectiveNoFileComp)))
			}
		}
		for name, ends := range files {
			if c.Flags().Lookup(name) != nil {
				must(c.MarkFlagFilename(name, ends...))
			}
		}
		if c.Flags().Lookup("tokenizer") != nil { // a built-in one, or a path
			must(c.RegisterFlagCompletionFunc("tokenizer", cobra.FixedCompletions([]string{tokenizer.CL100K, tokenizer.O200K}, cobra.ShellCompDirectiveDefault)))
		}
		if c.Flags().Lookup("goodput") != nil && c.Flags().Lookup("output") != nil {
			must(c.MarkFlagDirname("output"))
		}
		switch c.Name() {
		case "fastreplay": // its commands, and files
			c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
		case "inspect", "convert":
			c.ValidArgsFunction = cobra.FixedCompletions(traces, cobra.ShellCompDirectiveFilterFileExt)
		case "report":
			c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		}
	}
}

// must is for what can only fail by a mistake of ours.
func must(err error) {
	if err != nil {
		panic("BUG: " + err.Error())
	}
}
