package keyed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Keep is something of requests that is kept beside lengths and ids, because somebody has asked for it.
type Keep struct {
	Field  string // one of [rows.OwnerFields] or a parameter of sampling
	Header string // that has it, in place of the body; "" = none
	Plain  bool   // the name itself, in place of a pseudonym; numbers are kept as they are
}

// parameters are members of bodies that may be kept: of those, numbers say nothing of whoever asks.
func parameters() []string {
	return []string{"temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
		"repetition_penalty", "seed"}
}

// parseKeeps reads texts of the form FIELD[=HEADER][:plain].
func parseKeeps(texts []string) (all []Keep, err error) {
	known := append(rows.OwnerFields(), parameters()...)
	for _, text := range texts {
		what, how, _ := strings.Cut(text, ":")
		k := Keep{Plain: how == "plain"}
		k.Field, k.Header, _ = strings.Cut(what, "=")
		switch {
		case how != "" && !k.Plain:
			return nil, fmt.Errorf("--keep %s: want FIELD, FIELD=HEADER, or one of them with :plain behind it", text)
		case !slices.Contains(known, k.Field):
			return nil, fmt.Errorf("--keep %s: known are %s", text, strings.Join(known, ", "))
		case k.Header != "" && !slices.Contains(rows.OwnerFields(), k.Field):
			return nil, fmt.Errorf("--keep %s: parameters are in bodies, not in headers", text)
		}
		all = append(all, k)
	}
	return all, nil
}

// memberOf is what a field is called in bodies.
func memberOf(field string) string {
	if field == "class" {
		return "service_tier"
	}
	return field
}

// keep is what is kept of request i.
func (h *Hasher) keep(t *trace.Trace, i int) (owner rows.Owner, extra []byte) {
	var body []byte
	if v := t.Verbatim(i); v.Kind == trace.VerbatimPayload {
		body = fmt.Appendf(nil, "{%s}", v.Content)
	}
	logged := t.OwnerOf(i)
	for _, k := range h.Keeps {
		value := logged.Value(k.Field)
		if value == "" && k.Header == "" {
			value = string(rows.AppendUnquoted(nil, api.Field(body, []string{memberOf(k.Field)})))
		}
		switch {
		case value == "":
		case slices.Contains(parameters(), k.Field):
			if _, err := strconv.ParseFloat(value, 64); err == nil && json.Valid([]byte(value)) {
				extra = fmt.Appendf(extra, `,%q:%s`, k.Field, value)
			}
		default:
			if !k.Plain && k.Field != "priority" {
				value = h.key.Pseudonym(k.Field, value)
			}
			_ = owner.Set(k.Field, k.Field, value) // what no row may have is left out
		}
	}
	if extra != nil {
		extra = append(append([]byte("{"), extra[1:]...), '}')
	}
	return owner, extra
}
