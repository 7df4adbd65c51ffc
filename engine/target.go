package engine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Target is one serving endpoint as the user named it.
type Target struct {
	URL   string           // scheme://host:port, as results name it
	Host  string           // the Host header
	Path  string           // where requests are posted
	Query string           // "?…" behind it, or ""; it may carry a credential, so nothing shows or records it
	Base  string           // URL plus the path that precedes the API's own, for probes
	TLS   bool             // https
	Name  string           // host name without port: what a certificate must carry
	Port  uint16           // TCP port
	Peers []netip.AddrPort // every address of the name; filled by Resolve
}

// ParseTarget reads a --url: host:port, a base URL with or without /v1, or a full endpoint. apiPath is the backend's own
// path, "/v1/completions" for one.
func ParseTarget(raw, apiPath string) (Target, error) {
	text := raw
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	raw = withoutSecrets(raw)
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return Target{}, fmt.Errorf("--url %q: not an address; want host:port or http://host:port", raw)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return Target{}, fmt.Errorf("--url %q: scheme %q; want http or https", raw, u.Scheme)
	}
	if u.User != nil {
		return Target{}, fmt.Errorf("--url for %s: carries credentials; give them with --header or --api-key-file, which never reach a result", u.Host)
	}
	port, err := portOf(u)
	if err != nil {
		return Target{}, fmt.Errorf("--url %q: %w", raw, err)
	}
	base, path, err := endpoint(u.EscapedPath(), apiPath)
	if err != nil {
		return Target{}, fmt.Errorf("--url %q: %w", raw, err)
	}
	t := Target{TLS: u.Scheme == "https", Name: u.Hostname(), Port: port, Host: u.Host, Path: path}
	t.URL = u.Scheme + "://" + net.JoinHostPort(t.Name, fmt.Sprint(port))
	t.Base = t.URL + base
	if u.RawQuery != "" {
		t.Query = "?" + u.RawQuery
	}
	return t, nil
}

// PostTo puts another path in the place of the API's own; "" changes nothing.
func (t *Target) PostTo(path string) {
	if path == "" {
		return
	}
	path, query, _ := strings.Cut(path, "?")
	t.Path = strings.TrimPrefix(t.Base, t.URL) + "/" + strings.TrimPrefix(path, "/")
	if query != "" {
		t.Query = "?" + query
	}
}

// withoutSecrets is what a message may show of a URL: no user, no password, no query.
func withoutSecrets(raw string) string {
	raw, _, _ = strings.Cut(raw, "?")
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		scheme, rest = "", raw
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "***" + rest[at:]
	}
	if !ok {
		return rest
	}
	return scheme + "://" + rest
}

func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	var port uint16
	if _, err := fmt.Sscanf(text, "%d", &port); err != nil || port == 0 {
		return 0, fmt.Errorf("port %q; want 1..65535", text)
	}
	return port, nil
}

// endpoint splits a URL's path into what precedes the API's own path and where requests go.
func endpoint(path, apiPath string) (base, full string, err error) {
	path = strings.TrimSuffix(path, "/")
	version := apiPath[:strings.Index(apiPath[1:], "/")+1] // "/v1"
	switch {
	case strings.HasSuffix(path, apiPath):
		return strings.TrimSuffix(path, apiPath), path, nil
	case version != "" && strings.HasSuffix(path, version):
		base = strings.TrimSuffix(path, version)
		return base, base + apiPath, nil
	case strings.HasSuffix(path, "/completions") || strings.HasSuffix(path, "/generate"):
		return "", "", fmt.Errorf("endpoint %q is not this API's, %q; choose the API with --api", path, apiPath)
	default:
		return path, path + apiPath, nil
	}
}

// Resolve looks up every address of every target's name. The addresses keep the resolver's families and are sorted, so
// that two runs spread their requests alike.
func Resolve(ctx context.Context, targets []Target) error {
	for i := range targets {
		t := &targets[i]
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", t.Name)
		if err != nil {
			return fmt.Errorf("target %s: cannot resolve %s: %w", t.URL, t.Name, err)
		}
		t.Peers = t.Peers[:0]
		for _, a := range addrs {
			t.Peers = append(t.Peers, netip.AddrPortFrom(a.Unmap(), t.Port))
		}
		slices.SortFunc(t.Peers, netip.AddrPort.Compare)
		t.Peers = slices.Compact(t.Peers)
	}
	return nil
}
