package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
)

// answerCommand is a server that does next to nothing: it takes any POST and answers what a mock would to a request for
// one token. It shows a client's own limit where the mock's would come first.
const answerCommand = "answer"

const answerBody = `{"id":"x","object":"text_completion","created":1,"model":"mock","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":"length"}],` +
	`"usage":{"prompt_tokens":16,"completion_tokens":1,"total_tokens":17}}`

// answerAll serves until the process is killed, or its standard input ends.
func answerAll(stdin io.Reader, stdout io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		_ = ln.Close()
	}()
	fmt.Fprintf(stdout, "listening on http://%s\n", ln.Addr())
	for {
		c, err := ln.Accept()
		if err != nil {
			return nil // closed
		}
		go answer(c)
	}
}

func answer(c net.Conn) {
	defer func() { _ = c.Close() }()
	reply := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answerBody), answerBody)
	r := bufio.NewReader(c)
	for {
		length, err := skipHead(r)
		if err != nil {
			return
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// skipHead reads a request head and returns its Content-Length.
func skipHead(r *bufio.Reader) (length int, err error) {
	const name = "Content-Length: "
	for {
		text, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(text) <= len("\r\n") {
			return length, nil
		}
		if len(text) > len(name) && string(text[:len(name)]) == name {
			if length, err = strconv.Atoi(string(text[len(name) : len(text)-len("\r\n")])); err != nil {
				return 0, err
			}
		}
	}
}
