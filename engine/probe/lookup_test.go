package probe

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestLookUp: addresses are each named once, in one order, and IPv6 ones in brackets; the port is a number.
func TestLookUp(t *testing.T) {
	of := func(addrs ...string) func(context.Context, string, string) ([]netip.Addr, error) {
		return func(_ context.Context, _, host string) (all []netip.Addr, err error) {
			expect.Equal(t, host, "llm.svc", "the name")
			for _, addr := range addrs {
				all = append(all, netip.MustParseAddr(addr))
			}
			return all, nil
		}
	}
	urls := must.Have(lookUp(t.Context(), "llm.svc:8000", of("10.0.0.9", "::ffff:10.0.0.2", "fd00::1", "10.0.0.9")))(t)
	expect.List(t, urls, []string{"http://10.0.0.2:8000", "http://10.0.0.9:8000", "http://[fd00::1]:8000"})
	_, err := lookUp(t.Context(), "llm.svc:8000", of())
	expect.Error(t, err, "has no address")
	_, err = lookUp(t.Context(), "llm.svc:8000", func(context.Context, string, string) ([]netip.Addr, error) {
		return nil, errors.New("no such host")
	})
	expect.Error(t, err, "cannot resolve llm.svc: no such host")
	for _, name := range []string{"llm.svc", "llm.svc:0", "llm.svc:70000", "llm.svc:http", ":80"} {
		_, err = lookUp(t.Context(), name, of())
		expect.Error(t, err, "want dns:HOST:PORT")
	}
}
