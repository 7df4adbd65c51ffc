package workload

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/api"
)

// Target is one serving endpoint as the user named it.
type Target struct {
	URL       string           // scheme://host:port, as results name it
	Host      string           // the Host header
	Path      string           // where requests are posted
	Query     string           // "?…" behind it, or ""; it may carry a credential, so nothing shows or records it
	Base      string           // URL plus the path that precedes the API's own, for probes
	own       string           // the API's own path, with which Path ends; "" = it does not
	TLS       bool             // https
	Name      string           // host name without port: what a certificate must carry
	Port      uint16           // TCP port
	Endpoints []netip.AddrPort // every address of the name; filled by Resolve
}

// ParseTarget reads a --url: host:port, a base URL with or without /v1, or a full endpoint. The backend's own path is
// apiPath, such as "/v1/completions". If it is "", the URL has the whole path.
func ParseTarget(raw, apiPath string) (Target, error) {
	text := raw
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	raw = WithoutSecrets(raw)
	scheme, _, slash := strings.Cut(raw, "/")
	scheme = strings.TrimSuffix(scheme, ":")
	if slash && !strings.Contains(raw, "://") && (scheme == "http" || scheme == "https") {
		return Target{}, fmt.Errorf("--url %q: write %s://HOST:PORT", raw, scheme)
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return Target{}, fmt.Errorf("--url %q: not an address; want host:port or http://host:port", raw)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return Target{}, fmt.Errorf("--url %q: scheme %q; want http or https", raw, u.Scheme)
	}
	if u.User != nil {
		return Target{}, fmt.Errorf("--url for %s: carries credentials; give them with --header or --api-key-file, "+
			"which never reach a result", u.Host)
	}
	port, err := portOf(u)
	if err != nil {
		return Target{}, fmt.Errorf("--url %q: %w", raw, err)
	}
	base, path, err := endpoint(u.EscapedPath(), apiPath)
	if err != nil {
		return Target{}, fmt.Errorf("--url %q: %w", raw, err)
	}
	t := Target{
		TLS:  u.Scheme == "https",
		Name: u.Hostname(),
		Port: port,
		Host: u.Host,
		Path: path,
		own:  apiPath,
	}
	host := t.Name
	if strings.Contains(host, ":") { // IPv6
		host = "[" + host + "]"
	}
	t.URL = fmt.Sprintf("%s://%s:%d", u.Scheme, host, port)
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
	base := strings.TrimPrefix(t.Base, t.URL)
	t.Path = base + "/" + strings.TrimPrefix(path, "/")
	if !strings.HasSuffix(t.Path, t.own) {
		t.own = ""
	}
	if query != "" {
		t.Query = "?" + query
	}
}

// URLFor is where a request goes whose API has the path own: the run's, or that of whole answers beside that of
// streams.
func (t *Target) URLFor(own string) string {
	path := t.Path
	before, ok := strings.CutSuffix(path, t.own)
	if ok && t.own != "" {
		path = before + own
	}
	return t.URL + path
}

// WithoutSecrets is what a message may show of a URL: no user, no password, no query.
func WithoutSecrets(raw string) string {
	raw, _, _ = strings.Cut(raw, "?")
	host := strings.TrimPrefix(raw[max(0, strings.Index(raw, "://")):], "://")
	before := strings.TrimSuffix(raw, host)
	at := strings.LastIndex(host, "@")
	if at >= 0 {
		host = "***" + host[at:]
	}
	return before + host
}

func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("port %q; want 1..65535", text)
	}
	return uint16(port), nil
}

// endpoint splits a URL's path into what precedes the API's own path and where requests go.
func endpoint(path, apiPath string) (base, full string, err error) {
	path = strings.TrimSuffix(path, "/")
	if apiPath == "" {
		return "", path, nil
	}
	whole := strings.TrimSuffix(apiPath, "_stream")
	for _, own := range []string{apiPath, whole, whole + "_stream"} {
		if base, ok := strings.CutSuffix(path, own); ok {
			return base, base + apiPath, nil
		}
	}
	other := apiOf(path)
	if other != "" {
		return "", "",
			fmt.Errorf("endpoint %q is not this API's, %q; choose the API with --api %s", path, apiPath, other)
	}
	if strings.HasSuffix(path, "/completions") {
		return "", "",
			fmt.Errorf("endpoint %q is not this API's, %q; choose the API with --api, and --endpoint for another path",
				path, apiPath)
	}
	base = withoutStart(path, apiPath)
	return base, base + apiPath, nil
}

// withoutStart takes what an API's path begins with off a URL's path, such as /v1, or /v2/models/NAME.
func withoutStart(path, apiPath string) string {
	for i := len(apiPath) - 1; i > 0; i-- {
		if apiPath[i] == '/' && strings.HasSuffix(path, apiPath[:i]) {
			return strings.TrimSuffix(path, apiPath[:i])
		}
	}
	return strings.TrimSuffix(path, "/v1")
}

// apiOf names the API whose path a URL's path ends with; "" for none.
func apiOf(path string) string {
	for i := range path {
		name := api.AtPath(path[i:])
		if path[i] == '/' && name != "" {
			return name
		}
	}
	return ""
}
