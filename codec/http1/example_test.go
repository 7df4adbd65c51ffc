package http1_test

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/http1"
)

// The body comes in pieces that alias the bytes that were read. Framing is left out.
func ExampleResponse_Scan() {
	var r http1.Response
	p := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\n4\r\n1\n\n\n\r\n0\r\n\r\n")
	for !r.Done() {
		body, n, err := r.Scan(p)
		if err != nil {
			fmt.Println(err)
			return
		}
		if p = p[n:]; len(body) > 0 {
			fmt.Printf("%q\n", body)
		}
	}
	fmt.Println("status", r.Status)
	// Output:
	// "data: "
	// "1\n\n\n"
	// status 200
}

// A head is made in three steps, between which a caller may put further headers.
func ExampleAppendRequestStart() {
	head := http1.AppendRequestStart(nil, "POST", "/v1/completions", "gpu1:8000")
	head = http1.AppendHeaders(head, []http1.Header{{Name: "Content-Type", Value: "application/json"}})
	head = http1.AppendHeadEnd(head, 42)
	fmt.Printf("%q\n", head)
	// Output:
	// "POST /v1/completions HTTP/1.1\r\nHost: gpu1:8000\r\nContent-Type: application/json\r\nContent-Length: 42\r\n\r\n"
}
