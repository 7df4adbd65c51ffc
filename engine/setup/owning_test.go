package setup

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// chats is a trace of conversations of three turns, each of which begins with the blocks of the turn before, all behind
// one system prompt.
func chats(t *testing.T, conversations int, owners ...string) *trace.Trace {
	t.Helper()
	var b strings.Builder
	for turn := range 3 {
		for c := range conversations {
			ids := "1"
			for k := range turn + 1 {
				ids += fmt.Sprintf(",%d", 10+10*c+k)
			}
			owner := ""
			if len(owners) > 0 {
				owner = `,"tenant":"` + owners[c%len(owners)] + `"`
			}
			fmt.Fprintf(&b, "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":5,\"hash_ids\":[%s]%s}\n", 10000*turn+c, 512*(turn+2), ids, owner)
		}
	}
	return must.Have(trace.Read(strings.NewReader(b.String()), "chats", trace.Options{Format: "mooncake"}))(t)
}

// TestTenantsAreMade: each conversation has one tenant, as often as its share says, the same by the same seed.
func TestTenantsAreMade(t *testing.T) {
	in := chats(t, 2000)
	shares := must.Have(ParseShares("3:7,2,1"))(t)
	o := Owning{Shares: shares}
	out, note, err := o.Apply(in, 5)
	must.Do(t, err)
	expect.Contains(t, note, "made up")
	again, _, _ := o.Apply(in, 5)
	other, _, _ := o.Apply(in, 6)
	counts, differ := map[string]float64{}, 0
	for i := range out.Len() {
		name := out.OwnerOf(i).Tenant
		counts[name]++
		expect.Equal(t, name, out.OwnerOf(i%2000).Tenant, "turn %d of conversation %d", i/2000, i%2000)
		expect.Equal(t, again.OwnerOf(i), out.OwnerOf(i), "by the same seed")
		differ += map[bool]int{true: 1, false: 0}[other.OwnerOf(i) != out.OwnerOf(i)]
		expect.List(t, out.Blocks(i), in.Blocks(i), "blocks of %d", i)
	}
	for k, want := range []float64{0.7, 0.2, 0.1} { // ± 4 standard deviations
		expect.Near(t, counts[fmt.Sprint("tenant-", k+1)]/6000, want, 4*math.Sqrt(want*(1-want)/2000), "share of tenant %d", k+1)
	}
	if differ == 0 {
		t.Error("another seed made the same tenants")
	}
	_, _, err = o.Apply(chats(t, 3, "acme"), 5)
	expect.Error(t, err, `rows name tenants of their own, such as "acme"`)
}

// TestTenantsApart: tenants share no block, and within each all is shared as before.
func TestTenantsApart(t *testing.T) {
	in := chats(t, 40, "a", "b", "c")
	o := Owning{Apart: true, Classes: must.Have(ParseClasses("tenant=a:gold,b:free"))(t)}
	out, _, err := o.Apply(in, 1)
	must.Do(t, err)
	classes := map[string]string{"a": "gold", "b": "free"}
	ownerOf := map[uint64]string{}
	was := map[uint64]uint64{}
	for i := range out.Len() {
		owner := out.OwnerOf(i)
		expect.Equal(t, owner.Tenant, in.OwnerOf(i).Tenant, "tenant of %d", i)
		expect.Equal(t, owner.Class, classes[owner.Tenant], "class of %d", i)
		before, after := in.Blocks(i), out.Blocks(i)
		must.Equal(t, len(after), len(before), "blocks of %d", i)
		for k, id := range after {
			if other, seen := ownerOf[id]; seen && (other != owner.Tenant || was[id] != before[k]) {
				t.Fatalf("block %d of request %d: of %s (%d) and of %s (%d)", k, i, other, was[id], owner.Tenant, before[k])
			}
			ownerOf[id], was[id] = owner.Tenant, before[k]
		}
	}
	expect.Equal(t, len(ownerOf), 40*3+3, "different blocks: a system prompt for each")
	_, _, err = o.Apply(chats(t, 4, "a"), 1)
	expect.Error(t, err, `no row has the tenant "b"`)
	apart := Owning{Apart: true}
	_, _, err = apart.Apply(chats(t, 4, "a"), 1)
	expect.Error(t, err, "no two tenants")
}

// TestOwningRefused: what cannot be meant is refused.
func TestOwningRefused(t *testing.T) {
	for _, text := range []string{"0", "x", "3:1,2", "2:1,-1", "2:1,NaN", "5000", "2:"} {
		expect.Refused(ParseShares(text))(t, "", text)
	}
	for _, text := range []string{"gold", "tenant=a", "tenant=a:", "tenant=:b", "class=a:b", "tenant=a:x,a:y"} {
		expect.Refused(ParseClasses(text))(t, "", text)
	}
	c := must.Have(ParseClasses("model=http://x:8:gold"))(t)
	expect.Equal(t, c.Of["http://x:8"], "gold", "a value with colons")
}
