package setup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Owning is what is made of whose rows are. The zero value leaves them as they are.
type Owning struct {
	Shares  []float64 // of the conversations, that made-up tenants get, with the sum 1; nil = none is made up
	Classes Classes
	Apart   bool   // prompts of two tenants share nothing
	Without string // FIELD=VALUE of rows that are not sent; all others leave when they would beside them; "" = none
}

// Classes are classes of service by the values of another field.
type Classes struct {
	Field string // tenant, model or priority; "" = rows keep theirs
	Of    map[string]string
}

// mostTenants bounds those that are made up.
const mostTenants = 1024

// ParseShares reads how many tenants are made up, and perhaps their shares, such as 3:0.7,0.2,0.1.
func ParseShares(text string) (shares []float64, err error) {
	if text == "" {
		return nil, nil
	}
	number, list, listed := strings.Cut(text, ":")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > mostTenants {
		return nil, fmt.Errorf("want a number of tenants from 1 to %d, such as 3, or 3:0.7,0.2,0.1", mostTenants)
	}
	shares = slices.Repeat([]float64{1}, n)
	if listed {
		shares = nil
		for part := range strings.SplitSeq(list, ",") {
			share, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
			if err != nil || !(share > 0 && share < 1e9) {
				return nil, fmt.Errorf("share %q: want a number above 0, such as 0.7", part)
			}
			shares = append(shares, share)
		}
	}
	if len(shares) != n {
		given := format.Many(len(shares), "share")
		return nil, fmt.Errorf("%s for %s; want one of each", given, format.Many(n, "tenant"))
	}
	sum := 0.0
	for _, share := range shares {
		sum += share
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares, nil
}

// ParseClasses reads classes by the values of a field, such as tenant=a:gold,b:free.
func ParseClasses(text string) (c Classes, err error) {
	if text == "" {
		return c, nil
	}
	field, list, _ := strings.Cut(text, "=")
	if !slices.Contains([]string{"tenant", "model", "priority"}, field) {
		return c, errors.New("want FIELD=VALUE:CLASS,… with the field tenant, model or priority, such as " +
			"tenant=a:gold,b:free")
	}
	c = Classes{Field: field, Of: map[string]string{}}
	for pair := range strings.SplitSeq(list, ",") {
		at := strings.LastIndex(pair, ":")
		if at < 1 || at == len(pair)-1 || c.Of[pair[:at]] != "" {
			return c, fmt.Errorf("%q: want VALUE:CLASS, and each value once", pair)
		}
		c.Of[pair[:at]] = pair[at+1:]
	}
	return c, nil
}

// Apply is the trace with what is made of whose rows are, by a seed, and what there is to say of it.
func (o *Owning) Apply(t *trace.Trace, seed uint64) (out *trace.Trace, note string, err error) {
	out = t
	if o.Shares != nil {
		if out, err = o.makeTenants(t, seed); err != nil {
			return nil, "", err
		}
		note = fmt.Sprintf("--tenants: the trace names no tenant; %s are made up, each of whole conversations",
			format.Many(len(o.Shares), "tenant"))
	}
	if o.Classes.Field != "" {
		if out, err = o.Classes.apply(out); err != nil {
			return nil, "", err
		}
	}
	if o.Apart {
		out, err = apart(out)
	}
	return out, note, err
}

// makeTenants gives each conversation a tenant by chance.
func (o *Owning) makeTenants(t *trace.Trace, seed uint64) (*trace.Trace, error) {
	for _, owner := range t.Owners {
		if owner.Tenant != "" {
			return nil, fmt.Errorf("--tenants: rows name tenants of their own, such as %q; leave it out", owner.Tenant)
		}
	}
	const stream = 0x7e6a
	chance := rand.New(rand.NewPCG(seed, stream))
	of := t.Conversations()
	tenants := make([]string, of.Sessions)
	for i := range tenants {
		drawn := chance.Float64()
		k := 0
		for k < len(o.Shares)-1 && drawn >= o.Shares[k] {
			drawn -= o.Shares[k]
			k++
		}
		tenants[i] = fmt.Sprint("tenant-", k+1)
	}
	return t.WithOwners(func(i int) rows.Owner {
		owner := t.OwnerOf(i)
		owner.Tenant = tenants[of.Session[i]]
		return owner
	}), nil
}

// apply sets the classes of rows that have one of the values.
func (c *Classes) apply(t *trace.Trace) (*trace.Trace, error) {
	for value := range c.Of {
		has := func(o rows.Owner) bool { return o.Value(c.Field) == value }
		if !slices.ContainsFunc(t.Owners, has) {
			return nil, fmt.Errorf("--map: no row has the %s %q", c.Field, value)
		}
	}
	return t.WithOwners(func(i int) rows.Owner {
		owner := t.OwnerOf(i)
		if class := c.Of[owner.Value(c.Field)]; class != "" {
			owner.Class = class
		}
		return owner
	}), nil
}

// leaveOut takes the requests of --without out of the load.
func (p *Prepared) leaveOut() error {
	field, value, _ := strings.Cut(p.o.Owning.Without, "=")
	if field == "" {
		return nil
	}
	var list []int32
	for i := range p.Requests() {
		if p.Trace.OwnerOf(i).Value(field) == value {
			list = append(list, int32(i))
		}
	}
	if n := len(list); n == 0 || n == p.Requests() {
		return fmt.Errorf("--without %s: %d of %s are such; want some, and not all",
			p.o.Owning.Without, n, format.Requests(p.Requests()))
	}
	backend, err := p.o.backend(p.model, "", false, false)
	if err != nil {
		return err
	}
	p.LeftOut = p.LeaveOut(list, p.RunID, backend, record.WithoutWords)
	p.fitted.LeftOut = int64(len(list))
	p.note("left_out", "--without %s leaves out %s; a run with them, and compare, tells what they cost the others",
		p.o.Owning.Without, format.Requests(len(list)))
	return nil
}

// apart gives the prompts of each tenant content of its own.
func apart(t *trace.Trace) (*trace.Trace, error) {
	numbers := map[string]int32{}
	clone := make([]int32, t.Len())
	for i := range clone {
		tenant := t.OwnerOf(i).Tenant
		n, known := numbers[tenant]
		if !known {
			n = int32(len(numbers))
			numbers[tenant] = n
		}
		clone[i] = n
	}
	switch {
	case len(numbers) < 2:
		return nil, errors.New("--tenant-salt: the trace has no two tenants; make some with --tenants, or leave it out")
	case t.Verbatims() > 0:
		return nil, errors.New("--tenant-salt: verbatim prompts are sent as they are; leave it out")
	}
	out, err := t.Copies(lists.UpTo(t.Len()), clone, t.ArrivalNS, make([]int32, t.Len()))
	if err != nil {
		return nil, fmt.Errorf("--tenant-salt: %w", err)
	}
	return out, nil
}
