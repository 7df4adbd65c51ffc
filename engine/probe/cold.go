package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// Cold is how a run makes sure that it does not meet the blocks of the run before it in a server's cache.
type Cold string

// The values of --cold.
const (
	ColdAuto  Cold = "auto"  // flush where the server can, else salt
	ColdFlush Cold = "flush" // empty the servers' caches before the start, or fail
	ColdSalt  Cold = "salt"  // a cache_salt of this run in every body
	ColdOff   Cold = "off"   // neither
)

// Validate refuses anything but the four values.
func (c Cold) Validate() error {
	switch c {
	case ColdAuto, ColdFlush, ColdSalt, ColdOff:
		return nil
	}
	return fmt.Errorf("cold is %q; want flush, salt, off or auto", string(c))
}

// flushPaths empty a prefix cache: vLLM's (with VLLM_SERVER_DEV_MODE=1) and SGLang's.
var flushPaths = [...]string{"/reset_prefix_cache", "/flush_cache"}

// Flush empties the prefix cache at every address of every target and returns the path that did it.
func (b *Prober) Flush(ctx context.Context) (path string, err error) {
	for i := range b.Targets {
		t := &b.Targets[i]
		for _, addr := range t.Peers {
			if path, err = b.flushOne(ctx, t, addr); err != nil {
				return "", err
			}
		}
	}
	return path, nil
}

func (b *Prober) flushOne(ctx context.Context, t *workload.Target, addr netip.AddrPort) (string, error) {
	var answers []string
	for _, path := range flushPaths {
		status, _, err := b.ask(ctx, t, addr, fasthttp.MethodPost, t.Base+path, nil)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			answers = append(answers, fmt.Sprintf("%s: %v", path, err))
		case status == 200:
			return path, nil
		default:
			answers = append(answers, fmt.Sprintf("%s HTTP %d", path, status))
		}
	}
	return "", fmt.Errorf("%w: %s cannot flush its prefix cache (%s); use --cold salt or --cold off", ErrProbe, t.URL, strings.Join(answers, ", "))
}

// NewSalt returns a cache salt that no other run has.
func NewSalt() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "fastreplay-" + hex.EncodeToString(b[:])
}

// saltProbeTokens is several cache blocks of any engine.
const saltProbeTokens = 1024

// SaltWorks finds out whether the first target keeps prompts with different salts apart: the same prompt again with the
// same salt must be a hit, and with another one a miss. seen is false where the server reports no hits to judge by.
func (b *Prober) SaltWorks(ctx context.Context, source prompt.Source) (works, seen bool, err error) {
	t := &b.Targets[0]
	text := b.newPrompt(source, saltProbeTokens)
	salt := NewSalt()
	var hits [3]int
	for i, s := range [...]string{salt, salt, NewSalt()} {
		usage, err := b.Count(ctx, t, t.Peers[0], text, s)
		if err != nil {
			return false, false, err
		}
		hits[i] = usage.CachedTokens
	}
	return hits[2] <= 0, hits[1] > 0, nil
}
