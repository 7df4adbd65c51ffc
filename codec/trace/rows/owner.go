package rows

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Owner is whose a request is, and how servers are to treat it. Rows that are alike share one.
type Owner struct {
	Tenant string // "" = not said
	Model  string // a model, or the name of a LoRA adapter; "" = that of the run
	Class  string // of service; "" = not said
	// Priority is as vLLM has it, where less is sooner, or as other servers do; "" = not said. It is a whole number.
	Priority string
}

// Values are an Owner's, by the words that stand for them in the values of headers.
func (o Owner) Values() map[string]string {
	return map[string]string{
		"{tenant}":   o.Tenant,
		"{model}":    o.Model,
		"{class}":    o.Class,
		"{priority}": o.Priority,
	}
}

func (f Field) ofOwner() bool { return f >= TenantField && f <= PriorityField }

// maxOwnerBytes bounds a tenant, model or class. Names of models that are paths have about 100.
const maxOwnerBytes = 512

// setOwner notes one field of the row's owner.
func (p *Reader) setOwner(f Field, value string) error {
	name := p.layout.Names[f]
	switch {
	case len(value) > maxOwnerBytes:
		return Bad(fmt.Sprintf("%s has %d bytes", name, len(value)), fmt.Sprintf("%d at most", maxOwnerBytes))
	case strings.ContainsFunc(value, unicode.IsControl):
		return Bad(fmt.Sprintf("%s is %s, with a control character", name, Quote(value)), "leave it out")
	}
	switch f {
	case TenantField:
		p.row.Owner.Tenant = value
	case ModelField:
		p.row.Owner.Model = value
	case ClassField:
		p.row.Owner.Class = value
	case PriorityField:
		if _, err := strconv.ParseInt(value, 10, 32); err != nil {
			return Bad(fmt.Sprintf("%s is %s, no whole number", name, Quote(value)), "such as -1, 0 or 5")
		}
		p.row.Owner.Priority = value
	}
	return nil
}
