package setup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// placeholder is what stands in a header's value for a field of a row's owner.
func placeholder(field string) string { return "{" + field + "}" }

// placeholders are the fields of a row's owner for which something stands in a header's value.
func placeholders(value string) (fields []string) {
	for _, field := range rows.OwnerFields() {
		if strings.Contains(value, placeholder(field)) {
			fields = append(fields, field)
		}
	}
	return fields
}

// rowHeaders are the headers that a row has of its own.
func rowHeaders(owner rows.Owner) (all []http1.Header) {
	for line := range strings.SplitSeq(owner.Headers, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			all = append(all, http1.Header{Name: name, Value: value})
		}
	}
	return all
}

// mostRowHeaders bounds the different sets of headers that rows have: for each one requests are made in their own way.
const mostRowHeaders = 4096

// checkRowHeaders refuses headers that a file may not set: those of fastreplay's own, and credentials, which no trace
// should have.
func (p *Prepared) checkRowHeaders() error {
	sets := map[string]bool{}
	for _, owner := range p.Trace.Owners {
		for _, h := range rowHeaders(owner) {
			if err := h.Validate(); err != nil {
				return fmt.Errorf("headers of a row: %w", err)
			}
			own := !strings.HasPrefix(h.Name, "x-") && h.Name != "traceparent" && h.Name != "baggage"
			if own || h.Name == "x-request-id" || redact.IsCredential(h.Name) {
				return fmt.Errorf("headers of a row: a trace may not set %s, but only x-…, traceparent and baggage, "+
					"and no credentials; give it with --header", h.Name)
			}
			sets[owner.Headers] = true
		}
	}
	if len(sets) > mostRowHeaders {
		return fmt.Errorf("rows have %d different sets of headers, and %d are too many; fill some with --header and "+
			"the fields of rows", len(sets), mostRowHeaders)
	}
	return nil
}

// checkTemplates refuses headers with values that no row has.
func (p *Prepared) checkTemplates() error {
	if err := p.checkRowHeaders(); err != nil {
		return err
	}
	for _, h := range p.secrets {
		for _, field := range placeholders(h.Value) {
			has := func(o rows.Owner) bool { return o.Value(field) != "" }
			if !slices.ContainsFunc(p.Trace.Owners, has) {
				return fmt.Errorf("--header %s: no row has a %s; leave it out, or name the field with --fields",
					h.Name, field)
			}
		}
	}
	return nil
}

// byOwner is how requests of each owner are made: with its model and priority in their bodies, and its values in
// headers. A header with a value that the owner lacks is left out. all has how those of nobody are made.
func (p *Prepared) byOwner(all workload.Owned) (owned []workload.Owned, err error) {
	backends := map[rows.Owner]api.Backend{{}: all.Backend} // by model and priority
	for _, owner := range p.Trace.Owners {
		asked := rows.Owner{Model: owner.Model, Priority: owner.Priority}
		if p.Trace.RecordedModels {
			asked.Model = ""
		}
		if backends[asked] == nil {
			if backends[asked], err = p.backendFor(asked); err != nil {
				return nil, err
			}
		}
		own := workload.Owned{Backend: backends[asked], Headers: slices.Clone(all.Headers)}
		for _, h := range p.secrets {
			value, whole := fill(h.Value, owner)
			if !whole || len(placeholders(h.Value)) == 0 {
				continue
			}
			filled := http1.Header{Name: h.Name, Value: value}
			if err := filled.Validate(); err != nil {
				return nil, fmt.Errorf("--header %s, of a row: %w", h.Name, err)
			}
			own.Headers = append(own.Headers, filled)
		}
		for _, h := range rowHeaders(owner) {
			if !hasHeader(p.secrets, h.Name) {
				own.Headers = append(own.Headers, h)
			}
		}
		owned = append(owned, own)
	}
	return owned, nil
}

// backendFor makes bodies with a model and a priority of their own.
func (p *Prepared) backendFor(asked rows.Owner) (api.Backend, error) {
	if !p.o.traits.Model {
		return nil, fmt.Errorf("rows have a model or a priority of their own, and --api %s has no place for them",
			p.o.API)
	}
	o := *p.o
	if asked.Priority != "" {
		var extra []string
		if o.Extra != nil {
			extra = append(extra, string(o.Extra))
		}
		var err error
		if o.Extra, err = api.ParseExtra(append(extra, "priority:"+asked.Priority)); err != nil {
			return nil, err
		}
	}
	model := cmp.Or(asked.Model, p.model)
	return o.backend(model, p.salt, !o.NoStream, o.Sessions.ForceAnswers)
}

// fill puts an owner's values into a header's; whole reports whether it has all of them.
func fill(template string, owner rows.Owner) (value string, whole bool) {
	whole = true
	var pairs []string
	for _, field := range placeholders(template) {
		whole = whole && owner.Value(field) != ""
		pairs = append(pairs, placeholder(field), owner.Value(field))
	}
	return strings.NewReplacer(pairs...).Replace(template), whole
}
