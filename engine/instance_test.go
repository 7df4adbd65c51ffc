package engine

import (
	"testing"

	"github.com/fastreplay/fastreplay/codec/http1"
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
		if got := read(headers); got != want {
			t.Errorf("%q: %q, want %q", headers, got, want)
		}
	}
	if read("Target-Pod: a\r\n") != "a" {
		t.Fatal("the name is gone")
	}
	if n := testing.AllocsPerRun(100, func() { names.of(&head) }); n != 0 {
		t.Errorf("%v allocations for a known name, want 0", n)
	}
}
