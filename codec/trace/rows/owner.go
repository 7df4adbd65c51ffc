package rows

import (
	"fmt"
	"slices"
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
	// Headers are further ones of its request, in order, "x-flow: a" each, with line feeds between them.
	Headers string
}

// OwnerFields are the fields of an Owner by the names that users give them, the most telling first.
func OwnerFields() []string { return []string{"class", "tenant", "model", "priority"} }

// field is where a field is, by its name; nil = there is none.
func (o *Owner) field(name string) *string {
	switch name {
	case "tenant":
		return &o.Tenant
	case "model":
		return &o.Model
	case "class":
		return &o.Class
	case "priority":
		return &o.Priority
	}
	return nil
}

// Value is that of a field by its name; "" if it is not said.
func (o Owner) Value(field string) string {
	if at := o.field(field); at != nil {
		return *at
	}
	return ""
}

// CutOwner takes whose requests it is about off a bound or the name of a number, such as "class=gold ttft.p99": the
// field of an Owner and its value. field is "" if it is about all requests.
func CutOwner(text string) (field, value, rest string) {
	owner, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	field, value, named := strings.Cut(owner, "=")
	if !named || !slices.Contains(OwnerFields(), field) {
		return "", "", text
	}
	return field, value, strings.TrimSpace(rest)
}

// Set sets a field by its name, one of [OwnerFields]; "" is not said. If no row may have the value, nothing is set, and
// the error says what is wrong with it. Called is the name of the field in the file.
func (o *Owner) Set(field, called, value string) error {
	switch {
	case len(value) > maxOwnerBytes:
		return Bad(fmt.Sprintf("%s has %d bytes", called, len(value)), fmt.Sprintf("%d at most", maxOwnerBytes))
	case strings.ContainsFunc(value, unicode.IsControl):
		return Bad(fmt.Sprintf("%s is %s, with a control character", called, Quote(value)), "leave it out")
	}
	if field == "priority" && value != "" {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return Bad(fmt.Sprintf("%s is %s, no whole number", called, Quote(value)), "such as -1, 0 or 5")
		}
		value = strconv.FormatInt(n, 10) // "+7" and "007" are no JSON
	}
	*o.field(field) = value
	return nil
}

func (f Field) ofOwner() bool { return f >= TenantField && f <= HeadersField }

const (
	// maxOwnerBytes bounds a tenant, model, class or header. Names of models that are paths have about 100.
	maxOwnerBytes = 512
	// maxHeaders bounds those of a row.
	maxHeaders = 16
)

// headers notes the row's own headers, an object of strings.
func (p *Reader) headers(object []byte) error {
	name := p.layout.Names[HeadersField]
	var lines []string
	s := Scan(object)
	err := s.Object(func(key []byte) error {
		header := strings.ToLower(string(key))
		value, err := s.Text(&p.name)
		switch {
		case err != nil:
			return err
		case len(lines) == maxHeaders:
			return Bad(name+" has more than 16 headers", "leave some out")
		case len(header)+len(value) > maxOwnerBytes:
			return Bad(fmt.Sprintf("%s has a header of %d bytes", name, len(header)+len(value)),
				fmt.Sprintf("%d at most", maxOwnerBytes))
		case strings.ContainsFunc(header+string(value), unicode.IsControl):
			return Bad(fmt.Sprintf("%s has %s with a control character", name, Quote(header)), "leave it out")
		}
		lines = append(lines, header+": "+string(value))
		return nil
	})
	slices.Sort(lines)
	p.row.Owner.Headers = strings.Join(lines, "\n")
	return err
}

// setOwner notes one field of the row's owner.
func (p *Reader) setOwner(f Field, value string) error {
	return p.row.Owner.Set(UsualNames()[f], p.layout.Names[f], value)
}
