package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/cmd/fastreplay/manual"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// documents are the README and the pages of the manual, by their paths from the module's root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, name := range append([]string{"README.md", "CONTRIBUTING.md", "SKILL.md"}, prefixedAll("cmd/fastreplay/manual/", manual.Topics())...) {
		text := must.Have(os.ReadFile(filepath.Join("../..", name)))(t)
		docs[name] = string(text)
	}
	return docs
}

func prefixedAll(prefix string, names []string) (out []string) {
	for _, name := range names {
		out = append(out, prefix+name+".md")
	}
	return out
}

// TestReadmeIsShort: what a newcomer does not need stands in the manual.
func TestReadmeIsShort(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(documents(t)["README.md"], "\n"), "\n")
	if len(lines) > 250 {
		t.Errorf("README.md has %d lines; it has at most 250, the rest stands in cmd/fastreplay/manual", len(lines))
	}
}

func TestReadmeCountsFormats(t *testing.T) {
	count := fmt.Sprintf("%d formats", len(trace.Formats()))
	expect.Equal(t, strings.Count(documents(t)["README.md"], count), 2, "README.md says %q places", count)
}

var (
	linkPattern    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	droppedPattern = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	heading = linkPattern.ReplaceAllString(strings.ToLower(heading), "$1")
	return strings.ReplaceAll(droppedPattern.ReplaceAllString(heading, ""), " ", "-")
}

// anchors are those of a document.
func anchors(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		out = append(out, anchor(m[1]))
	}
	return out
}

// deadLinks lists the links of a document that lead to no file or heading; exists says whether there is a file.
func deadLinks(name string, docs map[string]string, exists func(string) bool) (dead []string) {
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(docs[name], -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		file, heading, _ := strings.Cut(m[1], "#")
		to := name
		if file != "" {
			to = path.Join(path.Dir(name), file)
		}
		text, known := docs[to]
		if !known && (heading != "" || !exists(to)) || heading != "" && !slices.Contains(anchors(text), heading) {
			dead = append(dead, m[1])
		}
	}
	return dead
}

// TestLinks: every link of the README, CONTRIBUTING and the manual leads somewhere.
func TestLinks(t *testing.T) {
	docs := documents(t)
	exists := func(file string) bool { _, err := os.Stat(filepath.Join("../..", file)); return err == nil }
	for name := range docs {
		for _, link := range deadLinks(name, docs, exists) {
			t.Errorf("%s: the link (%s) leads nowhere", name, link)
		}
	}
	for _, topic := range manual.Topics() {
		expect.Contains(t, docs["README.md"], "(cmd/fastreplay/manual/"+topic+".md)", "README.md has no link to the page %s", topic)
	}
}

// TestDeadLinks: the check above knows a dead link from a live one.
func TestDeadLinks(t *testing.T) {
	docs := map[string]string{
		"a/x.md": "# The `one` page\n[1](#the-one-page) [2](#no) [3](y.md) [4](y.md#two-words) [5](y.md#three) [6](z.md) [7](../b.go) [8](https://e.org/#x)",
		"a/y.md": "## Two words",
	}
	got := deadLinks("a/x.md", docs, func(file string) bool { return file == "b.go" })
	expect.List(t, got, []string{"#no", "y.md#three", "z.md"})
}

// commands are all that a user may run, each once.
func commands() []*cobra.Command {
	root := newRootCommand()
	out := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "completion" && c.Name() != "help" {
			out = append(append(out, c), c.Commands()...)
		}
	}
	return out
}

// foreignFlags are of other programs that the documents name: servers, load generators, scripts/bench.sh, docker.
func foreignFlags() []string {
	return []string{"enable-prompt-tokens-details", "enable-cache-report", "enable-metrics", "enable-scale-out", "enable-trace-replay", "incremental-streaming-output", "shutdown-timeout", "bars", "rm", "collect-interval", "max-seconds", "max-requests", "rampup", "out",
		"log-requests", "log-requests-level", "log-requests-format", "enable-log-requests", "enable-log-outputs", "max-log-len"}
}

// TestFlagsInManual: every flag that a document names exists, and every flag is documented.
func TestFlagsInManual(t *testing.T) {
	known, shown := map[string]bool{"help": true, "version": true}, map[string]bool{}
	for _, c := range commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			known[f.Name] = true
			shown[f.Name] = shown[f.Name] || !f.Hidden && f.Name != "help" && f.Name != "version"
		})
	}
	for _, n := range compat.Names() {
		known[n.Name], shown[n.Name] = true, true
	}
	for _, name := range foreignFlags() {
		known[name] = true
	}
	named := map[string]bool{}
	for name, text := range documents(t) {
		if name == "CONTRIBUTING.md" {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z0-9-]*)`).FindAllStringSubmatch(text, -1) {
			if named[m[1]] = true; !known[m[1]] {
				t.Errorf("%s names --%s, which no command has", name, m[1])
			}
		}
	}
	for flag, visible := range shown {
		if visible && !named[flag] {
			t.Errorf("no page of the manual names --%s", flag)
		}
	}
}

// TestManualIsLaidOut: no page is wider than 80 columns, but for addresses, which no line may break. No markup is left.
func TestManualIsLaidOut(t *testing.T) {
	address := regexp.MustCompile(`^ *\(https://\S+$`)
	for _, topic := range manual.Topics() {
		for _, width := range []int{40, 80, 100} {
			text := manual.LayOut(manual.Page(topic), width, false)
			for line := range strings.Lines(text) {
				if line = strings.TrimSuffix(line, "\n"); width >= 80 && uniseg.StringWidth(line) > width && !address.MatchString(line) {
					t.Errorf("%s at %d columns: %d columns: %s", topic, width, uniseg.StringWidth(line), line)
				}
				if strings.ContainsAny(line, "\x00\x01\x02\x03\x1b") || strings.Contains(line, "](") || strings.HasPrefix(line, "|") {
					t.Errorf("%s: markup is left: %q", topic, line)
				}
			}
		}
	}
}

// TestPagesBeginWithRecipes: what most people want to type stands first, in about ten lines.
func TestPagesBeginWithRecipes(t *testing.T) {
	recipe := regexp.MustCompile(`\A# .*\n\n((?:    .*\n)+)\n`)
	for _, topic := range manual.Topics() {
		first := recipe.FindStringSubmatch(manual.Page(topic))
		if first == nil || strings.Count(first[1], "\n") < 5 || strings.Count(first[1], "\n") > 14 {
			t.Errorf("%s.md does not begin with a recipe of 5 to 14 lines: %q", topic, first)
		}
	}
	for _, tool := range []string{"aiperf", "agentx", "vllm", "guidellm", "llm-d", "k6"} {
		if lines := strings.Count(manual.LayOut(manual.Page(tool), 80, false), "\n"); lines > 40 {
			t.Errorf("%s.md has %d lines at 80 columns, want at most 40", tool, lines)
		}
	}
}

// TestLayOut: each block, in a few columns, with and without style.
func TestLayOut(t *testing.T) {
	const page = "# A `page`\n\nOne **two three** four\nfive [link](x.md#y) [here](#z) [x](x.md).\n\n- an item that is long\n  and goes on\n- *next*\n\n    code   as it | is\n\n" +
		"<!-- hidden -->\n\n| key | |\n|---|---|\n| `a\\|b` | words that need more than one line |\n| café | x |\n"
	const want = "A page\n\nOne two three four\nfive link (help x)\nhere help x.\n\n- an item that is\n  long and goes on\n- next\n\n  code   as it | is\n\n" +
		"key\na|b   words that\n      need more\n      than one line\ncafé  x\n"
	expect.Equal(t, manual.LayOut(page, 19, false), want)
	styled := manual.LayOut(page, 19, true)
	for _, part := range []string{"\x1b[1mtwo\x1b[0m \x1b[1mthree\x1b[0m", "\x1b[4mnext\x1b[0m", "\x1b[4mkey\x1b[0m", "\x1b[1ma|b\x1b[0m   words"} {
		expect.Contains(t, styled, part, "with style")
	}
	expect.Equal(t, regexp.MustCompile("\x1b\\[[0-9]m").ReplaceAllString(styled, ""), want, "style changes the layout")
}

// TestHelpFitsOneScreen: the list of commands and topics is read without scrolling at 80x24.
func TestHelpFitsOneScreen(t *testing.T) {
	list := helpList(newRootCommand())
	for line := range strings.Lines(list) {
		if uniseg.StringWidth(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
	if n := strings.Count(list, "\n"); n > 23 {
		t.Errorf("%d lines, want at most 23", n)
	}
}

// TestShowPage: a page goes through the pager, with its arguments, and as it is if there is none.
func TestShowPage(t *testing.T) {
	for pager, want := range map[string]string{"": "one\ntwo\n", "no-such-pager -x": "one\ntwo\n", "head -n 1": "one\n"} {
		t.Setenv("PAGER", pager)
		var out strings.Builder
		if err := showPage(&out, "one\ntwo\n"); err != nil || out.String() != want {
			t.Errorf("PAGER=%q: %q, %v; want %q", pager, out.String(), err, want)
		}
	}
}

// TestHelp: topics, commands, both, neither.
func TestHelp(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		out    []string
		err    string
		absent string
	}{
		{args: "help", out: []string{"\n  inspect ", "\n  traces ", "\n  timing "}, absent: "--trace string"},
		{args: "help timing", out: []string{"When requests leave", "\n--scale 2 "}},
		{args: "help gen", out: []string{"Make a trace from a description", "--input-tokens"}},
		{args: "help mock", out: []string{"--template-jitter N", "The mock server", "reset-before"}},
		{args: "help tarces", code: exitUsage, err: "fastreplay: no topic or command \"tarces\" (`fastreplay help` lists them); did you mean traces or trace?\n"},
		{args: "help qqqqqqqq", code: exitUsage, err: "fastreplay: no topic or command \"qqqqqqqq\" (`fastreplay help` lists them)\n"},
		{args: "help timing scale", code: exitUsage, err: "fastreplay: no topic or command \"timing scale\" (`fastreplay help` lists them); did you mean timing or tuning?\n"},
	} {
		code, out, errs := ran(t, strings.Fields(c.args)...)
		expect.Equal(t, code, c.code, "%s: exit code", c.args)
		expect.Equal(t, errs, c.err, c.args)
		for _, part := range c.out {
			expect.Contains(t, out, part, "%s does not print", c.args)
		}
		if c.absent != "" {
			expect.Lacks(t, out, c.absent, c.args)
		}
	}
}
