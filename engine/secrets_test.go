package engine

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/codec/http1"
)

// keyLetters are what keys are made of, and what regular expressions, JSON and URLs treat as their own.
const keyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+=\"'$^*[](){}|?,;:@!#&<>%\\"

// randomKey does not end where what follows it could be read as part of its last letter.
func randomKey(rng *rand.Rand, length int) string {
	key := make([]byte, length)
	for i := range key {
		key[i] = keyLetters[rng.IntN(len(keyLetters))]
	}
	key[length-1] = 'Z'
	if length > 1 {
		key[length-2] = 'y'
	}
	return string(key)
}

func bearer(key string) http1.Header {
	return http1.Header{Name: "Authorization", Value: "Bearer " + key}
}

// quoted is the inside of a JSON string.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b[1 : len(b)-1])
}

// spellings are how servers repeat a key, and how a reader gets it back.
func spellings() map[string]func(string) string {
	each := func(format string) func(string) string {
		return func(key string) (out string) {
			for i := range len(key) {
				out += fmt.Sprintf(format, key[i])
			}
			return out
		}
	}
	return map[string]func(string) string{
		"plain": func(key string) string { return key }, "JSON": quoted, "Go": func(key string) string { q := strconv.Quote(key); return q[1 : len(q)-1] },
		"JSON in JSON": func(key string) string { return quoted(quoted(key)) },
		"slashes":      func(key string) string { return strings.ReplaceAll(quoted(key), "/", `\/`) },
		"\\u":          each(`\u%04x`), "\\U": each(`\u%04X`), "\\x": each(`\x%02x`), "percent": each("%%%02X"), "percent twice": each("%%25%02x"),
		"query": url.QueryEscape, "path": url.PathEscape,
	}
}

// holds tells whether text has the key, or 8 bytes of it in a row.
func holds(text, key string) string {
	for i := 0; i == 0 || i+leastPart <= len(key); i++ {
		if part := key[i:min(i+leastPart, len(key))]; strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// TestRedactor: no spelling of a key gets through, nor does a part where the text was cut, and what stands around it does.
func TestRedactor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 800 {
		key := randomKey(rng, shortestKey+rng.IntN(60))
		longer := key + randomKey(rng, 12)
		r := NewRedactor([]http1.Header{bearer(key), {Name: "X-Other-Key", Value: longer}})
		for name, spell := range spellings() {
			for _, secret := range []string{key, longer} {
				said := spell(secret)
				text := "(~ " + said + " ~)"
				if got := r.hide(text, 1<<20); got != "(~ *** ~)" {
					t.Fatalf("%s of %q: %q becomes %q", name, secret, text, got)
				}
				if len(key) < leastPart {
					continue
				}
				if cut := text[:rng.IntN(len(text))]; holds(r.hide(cut, 1<<20), secret) != "" {
					t.Fatalf("%s of %q, cut: %q becomes %q", name, secret, cut, r.hide(cut, 1<<20))
				}
			}
		}
	}
}

// TestRedactorBounds: a message is redacted before it is cut, wherever the key stands.
func TestRedactorBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	key := randomKey(rng, 200)
	r := NewRedactor([]http1.Header{bearer(key)})
	for _, filler := range []string{"", "x", strings.Repeat(key+" ", maxErrorRead/201-1)} {
		for pad := range 600 {
			text := r.line(filler + strings.Repeat("ä", pad) + key + strings.Repeat("z", 600))
			if part := holds(text, key); part != "" || len(text) > maxErrorText+len("…") || !utf8.ValidString(text) {
				t.Fatalf("%d before it: %q in %q", pad, part, text)
			}
		}
	}
	for pad := maxErrorRead - 2*len(key); pad <= maxErrorRead; pad++ {
		if part := holds(r.line(strings.Repeat(" ", pad)+key), key); part != "" {
			t.Fatalf("%d spaces before it: %q", pad, part)
		}
	}
}

// TestRedactorNames: which values are secrets, and which of them in parts.
func TestRedactorNames(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("anna:correct horse"))
	r := NewRedactor([]http1.Header{
		bearer("sk-1"), {Name: "authorization", Value: "Basic " + basic}, {Name: "X-Flag", Value: "true"}, {Name: "X-Team", Value: "team inference"},
		{Name: "Cookie", Value: "session=0123456789abcdef"},
	}, "?key=abcd/efg&verbose=1&sig=%2Babcdefgh", "lonely-one")
	for text, want := range map[string]string{
		"key sk-1 refused": "key *** refused", "Basic " + basic: "Basic ***", "correct horse": "***", "for anna:correct horse": "for ***", "anna": "anna",
		"true": "true", "team inference": "***", "inference": "inference", "at 789abcdef!": "at ***!",
		"/v1?key=abcd%2Fefg&verbose=1&sig=+abcdefgh": "/v1?key=***&verbose=1&sig=***", "lonely-one": "***", "": "", `\\\`: `\\\`, "%": "%", "%2": "%2",
	} {
		if got := r.hide(text, 1000); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	var none *Redactor
	if none.hide("abc", 2) != "ab" || none.line(" abc ") != "abc" || none.error(nil) != nil {
		t.Error("without secrets something is hidden")
	}
	words := "The model `m` does not exist. \\ 100% \"quoted\""
	if n := testing.AllocsPerRun(100, func() { r.hide(words, 1000) }); n != 0 || r.hide(words, 1000) != words {
		t.Errorf("%v allocations for nothing, %q", n, r.hide(words, 1000))
	}
}

// TestSecretsInRecords: whatever field of an answer repeats a key, and in whatever pieces it comes, the record has none of it.
func TestSecretsInRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		key := randomKey(rng, shortestKey+rng.IntN(40))
		for name, spell := range spellings() {
			if name == "\\x" {
				continue // no JSON
			}
			plain, k := spell(key), quoted(spell(key))
			if strings.HasPrefix(name, "\\") || strings.HasPrefix(name, "JSON") || name == "slashes" {
				k = plain
			}
			for _, answer := range []string{
				"200 OK\r\nTarget-Pod: " + plain + "\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
				"200 OK\r\nTarget-Pod: " + strings.Repeat("p", maxInstanceName-5) + plain + "\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
				"200 OK\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"" + k + "\"}],\"nvext\":{\"worker_id\":\"w" + k + "\"}}\n\ndata: [DONE]\n\n",
				"200 OK\r\n\r\ndata: {\"error\":{\"message\":\"no " + k + "\"}}\n\n",
				"200 OK\r\n\r\ndata: {\"choices\":" + plain + "}\n\n",
				"200 OK\r\n" + plain + "\r\n\r\n", "200 OK\r\nX-" + plain + " : 1\r\n\r\n",
				"401 No\r\n\r\n{\"error\":{\"message\":\"Incorrect API key provided: " + k + "\"}}",
				"401 No\r\n\r\n{\"detail\":[{\"input\":\"" + strings.Repeat("e", maxErrorText-30) + k + "\"}]}",
				"502 Bad\r\n\r\n<p>" + strings.Repeat(plain+" ", 1+2*maxErrorRead/(1+len(plain))),
			} {
				answer = "HTTP/1.1 " + strings.Replace(answer, "\r\n", "\r\nConnection: close\r\n", 1)
				p, rec := newReply(t, true)
				p.secrets = NewRedactor([]http1.Header{bearer(key)})
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
					if part := holds(text, key); part != "" {
						t.Fatalf("%s of %q: %q is in %s\nafter %q", name, key, part, text, answer)
					}
				}
			}
		}
	}
}
