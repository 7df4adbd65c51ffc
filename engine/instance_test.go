package engine

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/record"
)

func TestInstanceNames(t *testing.T) {
	names := instanceNames{headers: 2}
	var head http1.Response
	head.Keep("target-pod", "x-inference-pod", "another")
	read := func(headers string) string {
		head.Reset()
		if _, _, err := head.Scan([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + headers + "\r\n")); err != nil {
			t.Fatal(err)
		}
		return names.of(&head)
	}
	for headers, want := range map[string]string{
		"": "", "another: c\r\n": "", "Target-Pod: a\r\n": "a", "X-Inference-Pod: b\r\n": "b", "x-inference-pod: b\r\ntarget-pod: a\r\n": "a", "target-pod:\r\nX-Inference-Pod: b\r\n": "b",
	} {
		expect.Equal(t, read(headers), want, headers)
	}
	must.Equal(t, read("Target-Pod: a\r\n"), "a", "the name is gone")
	expect.Equal(t, testing.AllocsPerRun(100, func() { names.of(&head) }), 0, "allocations for a known name")
}

func TestGatewayShare(t *testing.T) {
	const none = record.None
	names := []string{"target-pod", "x-litellm-model-api-base"}
	for _, c := range []struct {
		headers        string
		own, upstream  int64
		instance, what string
	}{
		{"", none, none, "", "none"},
		{"X-LiteLLM-Model-Api-Base: http://a:1/v1\r\nx-litellm-response-duration-ms: 2387.2628211975098\r\nX-Litellm-Overhead-Duration-Ms: 418.6678\r\n", 418_667_800, 1_968_595_021, "http://a:1/v1", "LiteLLM"},
		{"x-litellm-response-duration-ms: 12.5\r\nx-litellm-overhead-duration-ms: None\r\n", none, none, "", "LiteLLM without its own time"},
		{"x-litellm-overhead-duration-ms: 3\r\n", 3_000_000, none, "", "LiteLLM without the whole"},
		{"x-litellm-response-duration-ms: 1\r\nx-litellm-overhead-duration-ms: 3\r\n", 3_000_000, none, "", "a part above the whole"},
		{"x-envoy-upstream-service-time: 57\r\n", none, 57_000_000, "", "Envoy"},
		{"x-envoy-upstream-service-time: 57\r\nx-litellm-response-duration-ms: 40\r\nx-litellm-overhead-duration-ms: 30\r\n", 30_000_000, 10_000_000, "", "Envoy before LiteLLM"},
		{"x-envoy-upstream-service-time: -1\r\n", none, none, "", "below 0"},
		{"x-envoy-upstream-service-time: 1e3\r\n", none, none, "", "no plain number"},
		{"x-envoy-upstream-service-time: 99999999999999999999999\r\n", none, none, "", "too long"},
		{"x-envoy-upstream-service-time: 1.2.3\r\n", none, none, "", "two points"},
	} {
		p, rec := newResponse(t, true)
		p.names.headers = len(names)
		p.head.Keep(append(names, gatewayHeaders()...)...)
		head := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + c.headers + "\r\n")
		p.feed(head, 1)
		if rec.GatewayNS != c.own || rec.UpstreamNS != c.upstream || rec.Instance != c.instance {
			t.Errorf("%s: own %d, upstream %d, instance %q", c.what, rec.GatewayNS, rec.UpstreamNS, rec.Instance)
		}
		expect.Equal(t, testing.AllocsPerRun(100, func() { p.begin(rec); p.feed(head, 1) }), 0, "%s: allocations", c.what)
	}
}
