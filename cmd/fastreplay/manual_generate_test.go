package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/cmd/fastreplay/manual"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/compare"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
)

var update = flag.Bool("update", false, "write the generated parts of the manual, or the frozen fingerprints, anew")

// generated is a part of a page that the code makes, between two comments.
var generated = regexp.MustCompile(`(?s)(<!-- generated: ([^>]*?) -->\n).*?(<!-- end -->)`)

// TestManualIsFresh: what the manual says of flags, keys and other tools' names is what the code says; with -update it
// is written.
func TestManualIsFresh(t *testing.T) {
	made := map[string]bool{}
	for _, topic := range manual.Topics() {
		file := filepath.Join("manual", topic+".md")
		text := must.Have(os.ReadFile(file))(t)
		fresh := generated.ReplaceAllStringFunc(string(text), func(part string) string {
			m := generated.FindStringSubmatch(part)
			made[m[2]] = true
			return m[1] + "\n" + generate(t, m[2]) + "\n" + m[3]
		})
		switch {
		case fresh == string(text):
		case *update:
			must.Do(t, os.WriteFile(file, []byte(fresh), 0o644))
		default:
			t.Errorf("cmd/fastreplay/%s is stale: run `go generate ./cmd/fastreplay`", file)
		}
	}
	want := []string{"names aiperf", "names replayer", "names vllm others", "names profile", "noted", "refused", "quirks", "notes", "latencies bounded", "latencies run"}
	for _, c := range commands()[1:] {
		if !slices.Contains([]string{"profile", "version", "status"}, c.Name()) {
			want = append(want, "flags "+c.Name())
		}
	}
	for _, g := range new(options).groups() {
		title, _, _ := strings.Cut(g.title, ":")
		want = append(want, "flags "+title)
	}
	for _, f := range resultFiles() {
		want = append(want, "keys "+f.name)
	}
	for _, name := range want {
		if !made[name] {
			t.Errorf("no page of the manual has <!-- generated: %s -->", name)
		}
	}
}

// generate makes a part by its name.
func generate(t *testing.T, name string) string {
	t.Helper()
	kind, of, _ := strings.Cut(name, " ")
	switch kind {
	case "flags":
		return flagTable(t, of)
	case "keys":
		for _, f := range resultFiles() {
			if f.name == of {
				return newKeys(t, f).pages()
			}
		}
	case "names":
		return nameTable(strings.Fields(of)...)
	case "notes":
		return noteTable(t)
	case "latencies":
		return latencyList(of)
	case "quirks":
		return quirkTable("quirk")
	case "noted":
		return reasonTable(func(n compat.Name) string { return n.Note })
	case "refused":
		return reasonTable(func(n compat.Name) string { return n.Refused })
	}
	t.Fatalf("the manual wants the part %q, which nothing makes", name)
	return ""
}

// latencyList has the keys of the latencies that comparisons and capacities take, or of all that a run has.
func latencyList(of string) string {
	var keys []string
	for _, l := range metrics.LatenciesIn[metrics.RunLatencies]() {
		if of == "run" || metrics.Latencies()[l].Bounded {
			keys = append(keys, "`"+metrics.Latencies()[l].Key+"`")
		}
	}
	last := len(keys) - 1
	return strings.Join(keys[:last], ", ") + " and " + keys[last] + "\n"
}

// noteTable lists the codes of notes with what they say, from the calls that tell them. No two kinds have one code.
func noteTable(t *testing.T) string {
	t.Helper()
	texts := map[string]string{}
	for _, of := range []string{"setup", "replay", "collect", "metrics", "report", "merge"} {
		files, _ := filepath.Glob("../../engine/" + of + "/*.go")
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f := must.Have(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				args := call.Args
				switch called := calledName(call); {
				case called == "note" || called == "NotesOf":
				case len(args) > 2 && (called == "Add" || called == "add"):
					args = args[1:]
				default:
					return true
				}
				if _, ok := args[0].(*ast.BasicLit); !ok {
					return true // Add itself
				}
				code := literal(t, args[0])
				expect.Equal(t, texts[code], "", "two kinds of notes have the code %s", code)
				texts[code] = regexp.MustCompile(`%[.0-9]*[sdqvgf]`).ReplaceAllString(literal(t, args[1]), "…")
				return true
			})
		}
	}
	var b strings.Builder
	b.WriteString("| code | note |\n|---|---|\n")
	for _, code := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", code, cell(texts[code]))
	}
	return b.String()
}

// calledName is the name of a function or method that is called.
func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		return fun.Sel.Name
	case *ast.Ident:
		return fun.Name
	}
	return ""
}

// literal is the text of string literals that are added to each other.
func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return literal(t, e.X) + literal(t, e.Y)
	case *ast.BasicLit:
		text := must.Have(strconv.Unquote(e.Value))(t)
		return text
	}
	t.Fatalf("a note's code and format are literals, and not %T", e)
	return ""
}

// cell is a text in a table of Markdown.
func cell(text string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text) }

// flagTable lists the flags of a command, or of a group of a replay's.
func flagTable(t *testing.T, of string) string {
	t.Helper()
	var flags *pflag.FlagSet
	for _, c := range commands()[1:] {
		if c.Name() == of {
			flags = c.Flags()
		}
	}
	for _, g := range new(options).groups() {
		if title, _, _ := strings.Cut(g.title, ":"); title == of {
			flags = g.flags
		}
	}
	if flags == nil {
		t.Fatalf("there is no command or group of flags %q", of)
	}
	var b strings.Builder
	b.WriteString("| flag | |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		names, usage := flagName(f)
		usage += flagDefault(f, usage)
		if f.Shorthand != "" {
			names = "-" + f.Shorthand + ", " + names
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", cell(names), cell(usage))
	})
	return b.String()
}

// TestHelp80: every help fits into 80 columns. That of a replay is one screen of at most 25 flags, and names the page
// that has all.
func TestHelp80(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^  (-.,|   ) --([a-z-]+)`)
	for _, c := range commands() {
		help, replays := helpOf(t, c, "--help"), c.Name() == "fastreplay" || c.Name() == "profile"
		shown, lines := flag.FindAllStringSubmatch(help, -1), strings.Count(help, "\n")
		if replays && (len(shown) > 25 || lines > 40 || !strings.Contains(help, "fastreplay help flags")) {
			t.Errorf("%s --help: %d flags in %d lines", c.Name(), len(shown), lines)
		}
		if replays {
			for _, g := range new(options).groups() {
				help += flagUsages(g.flags, true)
			}
		}
		for line := range strings.Lines(help) {
			if uniseg.StringWidth(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s --help: wider than 80 columns: %s", c.Name(), line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			own := f.Name != "help" && f.Name != "version" && !f.Hidden
			if got := slices.ContainsFunc(flag.FindAllStringSubmatch(help, -1), func(m []string) bool { return m[2] == f.Name }); got != own {
				t.Errorf("%s --help: --%s is there: %v, want %v", c.Name(), f.Name, got, own)
			}
		})
	}
	n := 0
	for _, g := range new(options).groups() {
		g.flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				n++
			}
		})
	}
	if n > 87 {
		t.Errorf("a replay has %d visible flags; it has at most 87: fold one into another, or hide one", n)
	}
}

func helpOf(t *testing.T, c *cobra.Command, help string) string {
	t.Helper()
	args := append(strings.Fields(c.CommandPath())[1:], help)
	code, out, said := ran(t, args...)
	must.Equal(t, code, exitOK, "%v: exit code: %s", args, said)
	return out
}

// nameTable lists the names of some sections of other tools' flags, what they are here, and what else is to be known.
func nameTable(sections ...string) string {
	var b strings.Builder
	b.WriteString("| flag | here | |\n|---|---|---|\n")
	for _, n := range compat.Names() {
		if !slices.Contains(sections, n.Tool) {
			continue
		}
		theirs, ours := "--"+n.Name, "–"
		if n.Short != "" {
			theirs = "-" + n.Short + ", " + theirs
		}
		if n.Flag != "" {
			ours = "`--" + n.Ours() + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", theirs, ours, cell(cmp.Or(n.Doc, n.Note)))
	}
	return b.String()
}

// reasonTable lists the flags that have no meaning here by what is said of them; none of those of which nothing is
// said.
func reasonTable(reason func(compat.Name) string) string {
	var b strings.Builder
	b.WriteString("| flags | |\n|---|---|\n")
	var flags []string
	names := compat.Names()
	for i, n := range names {
		if n.Tool != "all" || reason(n) == "" {
			continue
		}
		flags = append(flags, "`--"+n.Name+"`")
		if i+1 == len(names) || reason(names[i+1]) != reason(n) {
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(flags, ", "), cell(reason(n)))
			flags = nil
		}
	}
	return b.String()
}

// resultFile is a file of results, and what it holds.
type resultFile struct {
	name    string
	holds   reflect.Type
	derived map[string]string // keys that are no fields, and what they are
}

func resultFiles() []resultFile {
	return []resultFile{
		{"summary.json", reflect.TypeFor[metrics.Summary](), nil},
		{"requests.jsonl", reflect.TypeFor[record.Record](), map[string]string{
			"drift_ns": "sent_ns - planned_ns: how late the client was; never clamped, and below 0 a bug; null if it was not sent",
			"ttft_ms":  "first_token_ns - sent_ns, in ms with six decimals",
			"ttfo_ms":  "first_output_ns - sent_ns, in ms with six decimals",
			"tpot_ms":  "(last_token_ns - first_token_ns) / (completion_tokens - 1), in ms with six decimals. Of several choices decode_ns / (completion_tokens - choices). null below two tokens, and if one chunk brought all of them",
			"e2e_ms":   "last_token_ns - sent_ns, in ms with six decimals",
		}},
		{"timeline.jsonl", reflect.TypeFor[metrics.Step](), nil},
		{"server_metrics.jsonl", reflect.TypeFor[scrape.Sample](), nil},
		{"inspect", reflect.TypeFor[inspect.Document](), nil},
		{"compare", reflect.TypeFor[compare.Result](), nil},
		{"run.json", reflect.TypeFor[report.Plan](), nil},
	}
}

// TestSchemas: the schemas in the repository are those of what is written as JSON; with -update they are written.
func TestSchemas(t *testing.T) {
	files := append(resultFiles(), resultFile{"capacity.json", reflect.TypeFor[result](), nil}, resultFile{"sweep.json", reflect.TypeFor[swept](), nil})
	for _, f := range files {
		schema := newKeys(t, f).schema(f.holds)
		for key, comment := range f.derived {
			schema["properties"].(map[string]any)[key] = map[string]any{"type": []string{"number", "null"}, "description": comment}
		}
		schema["$schema"], schema["title"], schema["type"] = "https://json-schema.org/draft/2020-12/schema", f.name+" of fastreplay", "object"
		text := append(must.Have(json.MarshalIndent(schema, "", " "))(t), '\n')
		name, _, _ := strings.Cut(f.name, ".")
		file := filepath.Join("manual", name+".schema.json")
		if *update {
			must.Do(t, os.WriteFile(file, text, 0o644))
		}
		expect.Equal(t, string(must.Have(os.ReadFile(file))(t)), string(text), "%s: go generate ./cmd/fastreplay", file)
	}
}

// schema is the JSON Schema of a type. What is absent may be null, and later versions may have further keys.
func (k *keys) schema(of reflect.Type) map[string]any {
	kind, schema := "number", map[string]any{}
	switch value, object := k.value(of, true); {
	case strings.HasPrefix(value, "list"):
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		kind, schema["items"] = "array", k.schema(of.Elem())
	case object != nil:
		properties := map[string]any{}
		for _, f := range k.fields(object) {
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			property := k.schema(f.Type)
			if strings.Contains(options, "string") {
				property["type"] = []string{"string", "null"}
			}
			if comment := k.comment(f.owner, f.Name); comment != "" {
				property["description"] = comment
			}
			properties[key] = property
		}
		kind, schema["properties"] = "object", properties
	case value == "object", value == "distribution":
		kind = "object"
	case value == "text", value == "date":
		kind = "string"
	case value == "true or false":
		kind = "boolean"
	}
	schema["type"] = []string{kind, "null"}
	return schema
}

// keys lists the keys of a file, an object a section.
type keys struct {
	t        *testing.T
	file     resultFile
	comments map[string]string // by package, type and field
	seen     map[reflect.Type]string
	out      strings.Builder
}

func newKeys(t *testing.T, file resultFile) *keys {
	t.Helper()
	k := &keys{t: t, file: file, comments: map[string]string{}, seen: map[reflect.Type]string{}}
	if file.name == "run.json" { // its objects are those of summary.json
		k.seen = newKeys(t, resultFiles()[0]).walked()
	}
	return k
}

// walked are the objects of a file, by their place in it.
func (k *keys) walked() map[reflect.Type]string {
	k.object("", k.file.holds)
	return k.seen
}

func (k *keys) pages() string {
	k.object("", k.file.holds)
	return strings.TrimPrefix(k.out.String(), "\n")
}

// object lists the keys of a struct, and then those of the structs in it.
func (k *keys) object(at string, of reflect.Type) {
	k.seen[of] = at
	if at != "" {
		fmt.Fprintf(&k.out, "\n### `%s`\n\n", at)
	}
	if about := k.comment(of, ""); about != "" && at != "" {
		k.out.WriteString(strings.Join(format.Fill(about+".", 120), "\n") + "\n\n")
	}
	k.out.WriteString("| key | value | |\n|---|---|---|\n")
	type inner struct {
		at string
		of reflect.Type
	}
	var later []inner
	for _, f := range k.fields(of) {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		about := k.comment(f.owner, f.Name)
		if about == "" {
			k.t.Errorf("%s.%s has no comment that says unit and meaning of its key %s", f.owner, f.Name, key)
		}
		value, object := k.value(f.Type, options == "omitempty")
		if object != nil {
			if _, known := k.seen[object]; !known {
				k.seen[object] = strings.TrimPrefix(at+"."+key, ".")
				later = append(later, inner{k.seen[object], object})
			}
			value = fmt.Sprintf("[%s](#%s)", value, anchor(k.seen[object]))
		}
		fmt.Fprintf(&k.out, "| `%s` | %s | %s |\n", key, value, cell(about))
		if of == reflect.TypeFor[record.Record]() {
			k.after(key)
		}
	}
	for _, i := range later {
		k.object(i.at, i.of)
	}
}

// after lists the keys of requests.jsonl that stand behind a key and are no fields.
func (k *keys) after(key string) {
	order := recordKeys()
	for _, next := range order[slices.Index(order, key)+1:] {
		about, ok := k.file.derived[next]
		if !ok {
			return
		}
		fmt.Fprintf(&k.out, "| `%s` | number or null | %s |\n", next, cell(about))
	}
}

// recordKeys are the keys of a line of requests.jsonl that has all of them, in order.
func recordKeys() (order []string) {
	r := record.Record{SessionName: "a", JobName: "a", WaitsFor: "1", Type: "a", Instance: "a", History: "a", Choices: 2}
	for _, m := range regexp.MustCompile(`[{,]"(\w+)":`).FindAllSubmatch(r.AppendJSON(nil), -1) {
		order = append(order, string(m[1]))
	}
	return order
}

// field is one of a struct or of what is embedded in it.
type field struct {
	reflect.StructField
	owner reflect.Type
}

func (k *keys) fields(of reflect.Type) (out []field) {
	for i := range of.NumField() {
		f := of.Field(i)
		tag := f.Tag.Get("json")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case f.Anonymous && tag == "":
			out = append(out, k.fields(embedded)...)
		case tag != "" && tag != "-":
			out = append(out, field{f, of})
		}
	}
	return out
}

// value says what stands behind a key; object is the struct in it.
func (k *keys) value(of reflect.Type, omitted bool) (value string, object reflect.Type) {
	null := ""
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
		if !omitted {
			null = " or null"
		}
	}
	switch {
	case of == reflect.TypeFor[time.Time]():
		return "date" + null, nil
	case of == reflect.TypeFor[record.Wall]():
		return "date" + null, nil
	case of == reflect.TypeFor[stats.Percentiles]():
		return "distribution" + null, nil
	case of.Kind() == reflect.Struct:
		return "object" + null, of
	case of.Kind() == reflect.Slice || of.Kind() == reflect.Array:
		value, object = k.value(of.Elem(), false)
		return "list of " + plural(value) + null, object
	case of.Kind() == reflect.Map:
		return "object" + null, nil
	case of.Kind() == reflect.Bool:
		return "true or false" + null, nil
	case of.Kind() == reflect.String || of.Implements(reflect.TypeFor[fmt.Stringer]()):
		return "text" + null, nil
	}
	return "number" + null, nil
}

func plural(value string) string {
	if value == "text" {
		return "texts"
	}
	return value + "s"
}

// comment is the doc of a type (field "") or of one of its fields, on one line.
func (k *keys) comment(of reflect.Type, field string) string {
	place := of.PkgPath() + "."
	if _, read := k.comments[place]; !read {
		k.comments[place] = "read"
		k.readComments(of.PkgPath())
	}
	text := k.comments[place+of.Name()+"."+field]
	return strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
}

// readComments reads those of a package of this module.
func (k *keys) readComments(pkg string) {
	dir := filepath.Join("../..", strings.TrimPrefix(pkg, "github.com/fastreplay/fastreplay/"))
	files, err := filepath.Glob(path.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		k.t.Fatalf("no Go files in %s: %v", dir, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						k.readType(pkg+"."+s.Name.Name+".", s, d.Doc.Text())
					}
				}
			}
		}
	}
}

func (k *keys) readType(place string, s *ast.TypeSpec, doc string) {
	about := regexp.MustCompile(`^`+s.Name.Name+` (is|are|says|compares|counts) `).ReplaceAllStringFunc(doc, func(begin string) string {
		verb := strings.Fields(begin)[1]
		if verb == "is" || verb == "are" {
			return ""
		}
		return "This object " + verb + " "
	})
	if about != "" {
		k.comments[place] = strings.ToUpper(about[:1]) + about[1:]
	}
	body, ok := s.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range body.Fields.List {
		text := f.Comment.Text()
		if text == "" {
			text = f.Doc.Text()
		}
		for _, name := range f.Names {
			k.comments[place+name.Name] = text
		}
	}
}
