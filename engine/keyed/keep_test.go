package keyed

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// TestKeep: nothing of whose a request is enters the file but what is named, names as pseudonyms unless they may be
// told, and of parameters only numbers. Equal names have equal pseudonyms.
func TestKeep(t *testing.T) {
	var log strings.Builder
	for i, model := range []string{"acme-secret-lora", "acme-secret-lora", "llama"} {
		fmt.Fprintf(&log, `{"request":{"model":%q,"priority":%d,"service_tier":"flex","user":"jane","temperature":0.%d,"top_p":"jane","seed":true,`+
			`"messages":[{"role":"user","content":"hello"}]},"response":{"usage":{"completion_tokens":2}},"owner":{"tenant":"acme","class":""}}`+"\n", model, i-1, i+1)
	}
	head := func(text string) string { line, _, _ := strings.Cut(text, "\n"); return line }
	none, _ := convert(t, log.String(), "", Options{})
	expect.Lacks(t, head(none), `"kept"`, "the head")
	for _, word := range []string{"acme", "llama", "flex", "jane", "temperature", "priority"} {
		expect.Lacks(t, strings.TrimPrefix(none, head(none)), word, "rows, unasked")
	}
	keyed, _ := convert(t, log.String(), "", Options{Keep: []string{"model", "tenant", "class", "priority", "temperature", "top_p", "seed"}})
	must.Do(t, conforms(t, keyed))
	expect.Contains(t, head(keyed), `"kept":["model","tenant","class","priority","temperature","top_p","seed"]`, "the head")
	for _, word := range []string{"acme", "llama", "flex", "jane"} {
		expect.Lacks(t, keyed, word, "keyed")
	}
	is := read(t, keyed)
	expect.Equal(t, is.OwnerOf(0).Model, is.OwnerOf(1).Model, "equal models")
	if a, b := is.OwnerOf(0), is.OwnerOf(2); a.Model == b.Model || a.Tenant != b.Tenant || a.Tenant == a.Model || a.Class == "" {
		t.Errorf("owners %+v and %+v", a, b)
	}
	expect.Equal(t, string(is.Verbatim(1).Extra), `{"temperature":0.2}`, "parameters")
	expect.Equal(t, is.OwnerOf(0).Priority, "-1", "priority")
	plain, _ := convert(t, log.String(), "", Options{Keep: []string{"model:plain", "class:plain"}})
	expect.Equal(t, read(t, plain).OwnerOf(2), rows.Owner{Model: "llama", Class: "flex"}, "plain")
	for _, bad := range []string{"user", "model:clear", "temperature=x-t", ""} {
		_, err := parseKeeps([]string{bad})
		expect.Contains(t, fmt.Sprint(err), "--keep "+bad+": ", "refused")
	}
}

// ownersOf are those of the rows that requests with these members become.
func ownersOf(t *testing.T, members []string, keeps ...string) (all []rows.Owner) {
	t.Helper()
	var log strings.Builder
	for _, more := range members {
		fmt.Fprintf(&log, `{"request":{%s,"messages":[{"role":"user","content":"hello"}]},"response":{"usage":{"completion_tokens":2}}}`+"\n", more)
	}
	text, _ := convert(t, log.String(), "", Options{Keep: keeps})
	must.Do(t, conforms(t, text))
	tr := read(t, text)
	for i := range tr.Len() {
		all = append(all, tr.OwnerOf(i))
	}
	return all
}

// TestKeepEscapes: a name is one however its body spells it.
func TestKeepEscapes(t *testing.T) {
	members := []string{`"model":"m\u00fcller\/lora"`, `"model":"müller/lora"`}
	keyed := ownersOf(t, members, "model")
	expect.Equal(t, keyed[0], keyed[1], "pseudonyms")
	name := rows.Owner{Model: "müller/lora"}
	expect.List(t, ownersOf(t, members, "model:plain"), []rows.Owner{name, name}, "plain")
}

// TestKeepStrange: whatever a client says of itself, the file can be read. What no row may have is left out, and a
// priority is a number as JSON has it.
func TestKeepStrange(t *testing.T) {
	members := []string{`"priority":"+7","model":"a\tb"`, `"priority":"007","model":"` + strings.Repeat("x", 513) + `"`,
		`"priority":"soon","model":"\u0000"`, `"priority":-3,"model":"a b"`}
	expect.List(t, ownersOf(t, members, "priority", "model:plain"),
		[]rows.Owner{{Priority: "7"}, {Priority: "7"}, {}, {Priority: "-3", Model: "a b"}}, "plain")
	for _, owner := range ownersOf(t, members, "model") {
		expect.Equal(t, len(owner.Model), 16, "the length of a pseudonym")
	}
}
