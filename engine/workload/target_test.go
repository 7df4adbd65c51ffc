package workload_test

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/workload"
)

func TestParseTarget(t *testing.T) {
	const completions, chat = "/v1/completions", "/v1/chat/completions"
	cases := []struct{ raw, api, url, host, path, base string }{
		{"gpu1:8000", completions, "http://gpu1:8000", "gpu1:8000", "/v1/completions", "http://gpu1:8000"},
		{"http://gpu1:8000/", chat, "http://gpu1:8000", "gpu1:8000", "/v1/chat/completions", "http://gpu1:8000"},
		{"http://gpu1:8000/v1", chat, "http://gpu1:8000", "gpu1:8000", "/v1/chat/completions", "http://gpu1:8000"},
		{"http://gpu1:8000/v1/completions", completions, "http://gpu1:8000", "gpu1:8000", "/v1/completions", "http://gpu1:8000"},
		{"https://api.example.com", completions, "https://api.example.com:443", "api.example.com", "/v1/completions", "https://api.example.com:443"},
		{"http://gw/models/a/v1", completions, "http://gw:80", "gw", "/models/a/v1/completions", "http://gw:80/models/a"},
		{"http://gw/a/v1/chat/completions?api-version=1&key=k", chat, "http://gw:80", "gw", "/a/v1/chat/completions", "http://gw:80/a"},
		{"http://gw/models/a/v1", "/generate", "http://gw:80", "gw", "/models/a/generate", "http://gw:80/models/a"},
		{"tgi:80/generate", "/generate_stream", "http://tgi:80", "tgi:80", "/generate_stream", "http://tgi:80"},
		{"tgi:80/generate_stream", "/generate", "http://tgi:80", "tgi:80", "/generate", "http://tgi:80"},
		{"t:8000/v2/models/m", "/v2/models/m/generate_stream", "http://t:8000", "t:8000", "/v2/models/m/generate_stream", "http://t:8000"},
		{"t:8000/x/v2/models/m/generate", "/v2/models/m/generate_stream", "http://t:8000", "t:8000", "/x/v2/models/m/generate_stream", "http://t:8000/x"},
		{"gw:80/my/path", "", "http://gw:80", "gw:80", "/my/path", "http://gw:80"},
		{"gw:80", "", "http://gw:80", "gw:80", "", "http://gw:80"},
		{"[::1]:8000", completions, "http://[::1]:8000", "[::1]:8000", "/v1/completions", "http://[::1]:8000"},
	}
	for _, c := range cases {
		got, err := workload.ParseTarget(c.raw, c.api)
		if err != nil {
			t.Errorf("%q: %v", c.raw, err)
			continue
		}
		_, query, _ := strings.Cut(c.raw, "?")
		expect.Equal(t, strings.TrimPrefix(got.Query, "?"), query, c.raw)
		if got.URL != c.url || got.Host != c.host || got.Path != c.path || got.Base != c.base || got.TLS != strings.HasPrefix(c.url, "https") {
			t.Errorf("%q: %+v, want %+v", c.raw, got, c)
		}
	}
}

// TestURLFor: whole answers have another path than streams in some APIs, and a path of the user's own stays.
func TestURLFor(t *testing.T) {
	for _, c := range []struct{ raw, own, post, other, want string }{
		{"h:1", "/generate_stream", "", "/generate", "http://h:1/generate"},
		{"h:1/x", "/generate_stream", "/y/generate_stream", "/generate", "http://h:1/x/y/generate"},
		{"h:1", "/generate_stream", "/mine", "/generate", "http://h:1/mine"},
		{"h:1/a", "", "", "", "http://h:1/a"},
	} {
		target := must.Have(workload.ParseTarget(c.raw, c.own))(t)
		target.PostTo(c.post)
		expect.Equal(t, target.URLFor(c.other), c.want, c)
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for raw, why := range map[string]string{
		"":                                  "not an address",
		"http://":                           "not an address",
		"ftp://gpu1":                        "scheme",
		"http://user:secret@gpu1":           "credentials",
		"gpu1:0":                            "port",
		"gpu1:99999":                        "port",
		"http://gpu1/v1/chat/completions":   "--api",
		"http://gpu1:80:80/v1/completions/": "not an address",
		"http://u:secret@gpu1:x/?k=secret":  "not an address",
		"ftp://u:secret@gpu1":               "scheme",
		"gpu1:0?key=secret":                 "port",
	} {
		_, err := workload.ParseTarget(raw, "/v1/completions")
		expect.Error(t, err, why, raw)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats the secret: %v", raw, err)
		}
	}
}
