package engine

import (
	"context"
	"net/netip"
	"strings"
	"testing"
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
		{"http://gw/a/v1/chat/completions?api-version=1", chat, "http://gw:80", "gw", "/a/v1/chat/completions", "http://gw:80/a"},
		{"[::1]:8000", completions, "http://[::1]:8000", "[::1]:8000", "/v1/completions", "http://[::1]:8000"},
	}
	for _, c := range cases {
		got, err := ParseTarget(c.raw, c.api)
		if err != nil {
			t.Errorf("%q: %v", c.raw, err)
			continue
		}
		if got.URL != c.url || got.Host != c.host || got.Path != c.path || got.Base != c.base || got.TLS != strings.HasPrefix(c.url, "https") {
			t.Errorf("%q: %+v, want %+v", c.raw, got, c)
		}
	}
}

func TestParseTargetKeepsTheQueryApart(t *testing.T) {
	got, err := ParseTarget("http://gw/v1?api-version=1&key=k", "/v1/completions")
	if err != nil || got.Path != "/v1/completions" || got.Query != "?api-version=1&key=k" || strings.Contains(got.URL+got.Base, "key") {
		t.Errorf("%+v, %v", got, err)
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
		_, err := ParseTarget(raw, "/v1/completions")
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: error %v, want one about %q", raw, err, why)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats the secret: %v", raw, err)
		}
	}
}

func TestResolveKeepsEveryAddressOnce(t *testing.T) {
	targets := []Target{{URL: "http://127.0.0.1:8000", Name: "127.0.0.1", Port: 8000}, {URL: "http://[::1]:9", Name: "::1", Port: 9}}
	if err := Resolve(context.Background(), targets); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"127.0.0.1:8000", "[::1]:9"} {
		if len(targets[i].Peers) != 1 || targets[i].Peers[0] != netip.MustParseAddrPort(want) {
			t.Errorf("peers %v, want [%s]", targets[i].Peers, want)
		}
	}
}
