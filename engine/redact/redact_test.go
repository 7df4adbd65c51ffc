package redact

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine/internal/redacttest"
)

// TestRedactor: no spelling of a key gets through, nor does a part where the text was cut, and what stands around it
// does.
func TestRedactor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 800 {
		key := redacttest.RandomKey(rng, shortestKey+rng.IntN(60))
		longer := key + redacttest.RandomKey(rng, 12)
		r := NewRedactor([]http1.Header{redacttest.Bearer(key), {Name: "X-Other-Key", Value: longer}})
		for name, spell := range redacttest.Spellings() {
			for _, secret := range []string{key, longer} {
				said := spell(secret)
				text := "(~ " + said + " ~)"
				must.Equal(t, r.hide(text, 1<<20), "(~ *** ~)", "%s of %q: %q becomes", name, secret, text)
				if len(key) < leastPart {
					continue
				}
				if cut := text[:rng.IntN(len(text))]; redacttest.Holds(r.hide(cut, 1<<20), secret) != "" {
					t.Fatalf("%s of %q, cut: %q becomes %q", name, secret, cut, r.hide(cut, 1<<20))
				}
			}
		}
	}
}

// TestRedactorBase64: no base64 of a key gets through, however it is written, whatever it was encoded with, and where
// it was cut.
func TestRedactorBase64(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	encodings := map[string]*base64.Encoding{
		"standard": base64.StdEncoding, "URL-safe": base64.URLEncoding, "unpadded": base64.RawStdEncoding, "URL-safe, unpadded": base64.RawURLEncoding,
	}
	for range 300 {
		key := redacttest.RandomKey(rng, 16+rng.IntN(40))
		r := NewRedactor([]http1.Header{redacttest.Bearer(key)})
		for name, encoding := range encodings {
			for _, whole := range []string{key, "Bearer " + key, "anna:" + key, "u:" + key + "\n", `{"key":"` + key + `"}`, "xy" + key + "xyz"} {
				for spelling, spell := range redacttest.Spellings() {
					code := encoding.EncodeToString([]byte(whole))
					text := "(~ " + spell(code) + " ~)"
					if part := heldByCode(r.hide(text, 1<<20), code, whole, key); part != "" {
						t.Fatalf("%s of %q, %s: %q shows %q", name, whole, spelling, r.hide(text, 1<<20), part)
					}
					cut := text[:rng.IntN(len(text))]
					if part := heldByCode(r.hide(cut, 1<<20), code, whole, key); part != "" {
						t.Fatalf("%s of %q, %s, cut: %q shows %q", name, whole, spelling, r.hide(cut, 1<<20), part)
					}
				}
			}
		}
	}
	key := redacttest.RandomKey(rng, 40)
	r := NewRedactor([]http1.Header{redacttest.Bearer(key)})
	for _, words := range []string{"max_tokens must be less than 4096", "aGVsbG8gd29ybGQsIGhvdyBhcmUgeW91", "cmpl-7f3a9b2c1d"} {
		expect.Equal(t, r.hide(words, 1000), words)
	}
}

// heldByCode returns what of the key's own part of a base64 code is in text, 9 characters in a row at least.
func heldByCode(text, code, whole, key string) string {
	from := strings.Index(whole, key) * 4 / 3
	own := code[min(len(code), from+1):min(len(code), from+len(key)*4/3)]
	for i := 0; i+9 <= len(own); i++ {
		if strings.Contains(text, own[i:i+9]) {
			return own[i : i+9]
		}
	}
	return ""
}

// TestRedactorOfBasic: user and password are hidden however the header spells its name, its scheme and its code.
func TestRedactorOfBasic(t *testing.T) {
	const pair = "anna:correct?horse>battery"
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		for _, name := range []string{"Authorization", "authorization", "AUTHORIZATION", "aUTHORIZATION", "Proxy-Authorization"} {
			for _, scheme := range []string{"Basic", "basic", "BASIC"} {
				r := NewRedactor([]http1.Header{{Name: name, Value: scheme + " " + encoding.EncodeToString([]byte(pair))}})
				for _, said := range []string{pair, "correct?horse>battery", encoding.EncodeToString([]byte(pair)), base64.StdEncoding.EncodeToString([]byte(pair))} {
					got := r.hide("for "+said+".", 1000)
					if strings.Contains(got, "horse") || strings.Contains(got, "Y29ycmVjdD9ob3Jz") || !strings.Contains(got, "***") {
						t.Errorf("%s: %s: %q becomes %q", name, scheme, said, got)
					}
				}
			}
		}
	}
}

// TestRedactorBounds: a message is redacted before it is cut, wherever the key stands.
func TestRedactorBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	key := redacttest.RandomKey(rng, 200)
	r := NewRedactor([]http1.Header{redacttest.Bearer(key)})
	for _, filler := range []string{"", "x", strings.Repeat(key+" ", MaxErrorRead/201-1)} {
		for pad := range 600 {
			text := r.Line(filler + strings.Repeat("ä", pad) + key + strings.Repeat("z", 600))
			if part := redacttest.Holds(text, key); part != "" || len(text) > maxErrorText+len("…") || !utf8.ValidString(text) {
				t.Fatalf("%d before it: %q in %q", pad, part, text)
			}
		}
	}
	for pad := MaxErrorRead - 2*len(key); pad <= MaxErrorRead; pad++ {
		must.Equal(t, redacttest.Holds(r.Line(strings.Repeat(" ", pad)+key), key), "", "%d spaces before it", pad)
	}
}

// TestRedactorNames: which values are secrets, and which of them in parts.
func TestRedactorNames(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("anna:correct horse"))
	r := NewRedactor([]http1.Header{
		redacttest.Bearer("sk-1"), {Name: "authorization", Value: "Basic " + basic}, {Name: "X-Flag", Value: "true"}, {Name: "X-Team", Value: "team inference"},
		{Name: "Cookie", Value: "session=0123456789abcdef"},
	}, "?key=abcd/efg&verbose=1&sig=%2Babcdefgh", "lonely-one")
	for text, want := range map[string]string{
		"key sk-1 refused": "key *** refused", "Basic " + basic: "Basic ***", "correct horse": "***", "for anna:correct horse": "for ***", "anna": "anna",
		"true": "true", "team inference": "***", "inference": "inference", "at 789abcdef!": "at ***!",
		"/v1?key=abcd%2Fefg&verbose=1&sig=+abcdefgh": "/v1?key=***&verbose=1&sig=***", "lonely-one": "***", "": "", `\\\`: `\\\`, "%": "%", "%2": "%2",
	} {
		expect.Equal(t, r.hide(text, 1000), want, "%q becomes", text)
	}
	var none *Redactor
	if none.hide("abc", 2) != "ab" || none.Line(" abc ") != "abc" || none.Error(nil) != nil {
		t.Error("without secrets something is hidden")
	}
	words := "The model `m` does not exist. \\ 100% \"quoted\""
	if n := testing.AllocsPerRun(100, func() { r.hide(words, 1000) }); n != 0 || r.hide(words, 1000) != words {
		t.Errorf("%v allocations for nothing, %q", n, r.hide(words, 1000))
	}
}

// TestLabelIsOneLine: a server's name neither breaks a screen's line nor drives the terminal.
func TestLabelIsOneLine(t *testing.T) {
	r := NewRedactor([]http1.Header{{Name: "X-Api-Key", Value: "s3cr3t-key"}})
	expect.Equal(t, r.Label("big\nmodel\r\n \x1b[31ms3cr3t-key\u202e"), `big\nmodel\r\n \x1b[31m***\u202e`, "a name")
}
