package setup

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// placeholder is the word in a header's value that stands for a value of a row's owner; "" if there is none.
func placeholder(value string) string {
	for word := range (rows.Owner{}).Values() {
		if strings.Contains(value, word) {
			return word
		}
	}
	return ""
}

// takeTemplates takes the headers whose values rows fill out of those of all requests.
func (p *Prepared) takeTemplates() error {
	var all []http1.Header
	for _, h := range p.secrets {
		word := placeholder(h.Value)
		if word == "" {
			all = append(all, h)
			continue
		}
		known := false
		for _, owner := range p.Trace.Owners {
			known = known || owner.Values()[word] != ""
		}
		if !known {
			return fmt.Errorf("--header %s: no row has a %s; leave it out, or name the field with --fields",
				h.Name, strings.Trim(word, "{}"))
		}
		p.templates = append(p.templates, h)
	}
	p.secrets = all
	return nil
}

// byOwner is how requests of each owner are made: with its model and priority in their bodies, and its values in
// headers. A header with a value that the owner lacks is left out. headers are those of all requests.
func (p *Prepared) byOwner(headers []http1.Header) (all []workload.Owned, err error) {
	for _, owner := range p.Trace.Owners {
		if (owner.Model != "" || owner.Priority != "") && !p.o.traits.Model {
			return nil, fmt.Errorf("rows have a model or a priority of their own, and --api %s has no place for them",
				p.o.API)
		}
		o := *p.o
		if owner.Priority != "" {
			var ours []string
			if o.Extra != nil {
				ours = append(ours, string(o.Extra))
			}
			if o.Extra, err = api.ParseExtra(append(ours, "priority:"+owner.Priority)); err != nil {
				return nil, err
			}
		}
		model := cmp.Or(owner.Model, p.model)
		backend, err := o.tellingBackend(model, p.salt, !o.NoStream, o.Sessions.ForceAnswers)
		if err != nil {
			return nil, err
		}
		own := headers[:len(headers):len(headers)]
		for _, h := range p.templates {
			value, whole := fill(h.Value, owner)
			filled := http1.Header{Name: h.Name, Value: value}
			if err := filled.Validate(); err != nil {
				return nil, fmt.Errorf("--header %s, of a row: %w", h.Name, err)
			}
			if whole {
				own = append(own, filled)
			}
		}
		all = append(all, workload.Owned{Backend: backend, Headers: own})
	}
	return all, nil
}

// fill puts an owner's values into a header's; whole reports whether it has all of them.
func fill(template string, owner rows.Owner) (value string, whole bool) {
	whole = true
	var pairs []string
	for word, own := range owner.Values() {
		whole = whole && (own != "" || !strings.Contains(template, word))
		pairs = append(pairs, word, own)
	}
	return strings.NewReplacer(pairs...).Replace(template), whole
}
