package engine

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/redact/redacttest"
)

// TestSecretsInRecords: whatever field of an answer repeats a key, and in whatever pieces it comes, the record has none of it.
func TestSecretsInRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		key := redacttest.RandomKey(rng, 4+rng.IntN(40))
		for name, spell := range redacttest.Spellings() {
			if name == "\\x" {
				continue // no JSON
			}
			plain, k := spell(key), redacttest.Quoted(spell(key))
			if strings.HasPrefix(name, "\\") || strings.HasPrefix(name, "JSON") || name == "slashes" {
				k = plain
			}
			for _, answer := range []string{
				"200 OK\r\nTarget-Pod: " + plain + "\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
				"200 OK\r\nTarget-Pod: " + strings.Repeat("p", redact.MaxInstanceName-5) + plain + "\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
				"200 OK\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"" + k + "\"}],\"nvext\":{\"worker_id\":\"w" + k + "\"}}\n\ndata: [DONE]\n\n",
				"200 OK\r\n\r\ndata: {\"error\":{\"message\":\"no " + k + "\"}}\n\n",
				"200 OK\r\n\r\ndata: {\"choices\":" + plain + "}\n\n",
				"200 OK\r\n" + plain + "\r\n\r\n", "200 OK\r\nX-" + plain + " : 1\r\n\r\n",
				"401 No\r\n\r\n{\"error\":{\"message\":\"Incorrect API key provided: " + k + "\"}}",
				"401 No\r\n\r\n{\"detail\":[{\"input\":\"" + strings.Repeat("e", 512-30) + k + "\"}]}",
				"502 Bad\r\n\r\n<p>" + strings.Repeat(plain+" ", 1+2*redact.MaxErrorRead/(1+len(plain))),
			} {
				answer = "HTTP/1.1 " + strings.Replace(answer, "\r\n", "\r\nConnection: close\r\n", 1)
				p, rec := newReply(t, true)
				p.secrets = redact.NewRedactor([]http1.Header{redacttest.Bearer(key)})
				p.names.secrets, p.names.headers = p.secrets, 1
				p.head.Keep("target-pod")
				ended := false
				for rest := answer; rest != "" && !ended; {
					n := 1 + rng.IntN(len(rest))
					ended, _ = p.feed([]byte(rest[:n]), 1)
					rest = rest[n:]
				}
				if !ended {
					p.broken(io.EOF, 2)
				}
				line := string(rec.AppendJSON(nil))
				var back map[string]any
				if err := json.Unmarshal([]byte(line), &back); err != nil {
					t.Fatal(err)
				}
				for _, text := range []string{line, fmt.Sprint(back)} {
					if part := redacttest.Holds(text, key); part != "" {
						t.Fatalf("%s of %q: %q is in %s\nafter %q", name, key, part, text, answer)
					}
				}
			}
		}
	}
}
