package sse_test

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/sse"
)

// A read may end anywhere: here in the middle of the second event.
func ExampleScanner() {
	var s sse.Scanner
	for _, read := range []string{"data: {\"text\":\" a\"}\n\ndata: {\"te", "xt\":\" b\"}\n\ndata: [DONE]\n\n"} {
		for p := []byte(read); ; {
			data, n, ok, err := s.Next(p)
			if err != nil || !ok {
				break // the read is used up
			}
			fmt.Printf("%s\n", data)
			p = p[n:]
		}
	}
	// Output:
	// {"text":" a"}
	// {"text":" b"}
	// [DONE]
}
