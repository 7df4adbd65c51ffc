package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start serves on a free port and returns the address and the file of the record, which exists after finish.
func start(t *testing.T, s *server) (address, log, bodies string, finish func() []entry) {
	t.Helper()
	listener, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(listener)
	if err != nil {
		t.Fatal(err)
	}
	address = fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	log, bodies = filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "bodies")
	ended := make(chan error, 1)
	go func() { ended <- s.serve(listener, log, bodies) }()
	return address, log, bodies, func() []entry {
		t.Helper()
		_, _ = http.Get("http://" + address + "/finish") // it ends without an answer
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		var entries []entry
		for line := range strings.Lines(string(text)) {
			var e entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		return entries
	}
}

// TestRecord: net/http gets the tokens that it asked for, and the record's instants lie between the client's own.
func TestRecord(t *testing.T) {
	const ttft, tpot = 20 * time.Millisecond, 5 * time.Millisecond
	address, _, bodies, finish := start(t, &server{ttft: ttft, tpot: tpot})
	const body = `{"model":"m","prompt":[7,8,9],"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}`
	before := time.Now().UnixNano()
	response, err := http.Post("http://"+address+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	after := time.Now().UnixNano()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), `"text":" of"`); got != 4 || !strings.Contains(string(text), `"prompt_tokens":3,"completion_tokens":4`) {
		t.Errorf("answer %s, want 4 tokens and a usage of 3 and 4", text)
	}
	entries := finish()
	if len(entries) != 1 {
		t.Fatalf("%d entries, want 1", len(entries))
	}
	e := entries[0]
	if len(e.TokenNS) != 4 || e.Tokens != 4 {
		t.Fatalf("%d instants of %d tokens, want 4 of 4", len(e.TokenNS), e.Tokens)
	}
	instants := append([]int64{before, e.ArrivedNS, e.WholeNS, e.WholeNS + int64(ttft)}, e.TokenNS...)
	for i := 1; i < len(instants); i++ {
		// A first token leaves when it is due, so the plan and the instant may be equal.
		if instants[i] < instants[i-1] {
			t.Errorf("instant %d of %v is earlier than the one before it", i, instants)
		}
	}
	// DoneNS is stamped behind the write, when the client may have read it already.
	if last := e.TokenNS[3]; last > e.DoneNS || last > after {
		t.Errorf("last token %d, done %d, client's end %d: want the first before both", last, e.DoneNS, after)
	}
	if got, err := os.ReadFile(bodies); err != nil || string(got) != body {
		t.Errorf("bodies hold %q, %v", got, err)
	}
}

// TestArrivalInPieces: a request that comes byte by byte, and one behind it in the same segment, are answered one after the other.
func TestArrivalInPieces(t *testing.T) {
	address, _, _, finish := start(t, &server{})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const chunked = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"9\r\n{\"a\":[1],\r\n1b\r\n\"max_completion_tokens\": 2}\r\n0\r\n\r\n"
	for i := range len(chunked) {
		if _, err := conn.Write([]byte(chunked[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	const plain = "POST /v1/completions HTTP/1.1\r\nX-Request-Id: %s\r\nContent-Length: 16\r\n\r\n{\"max_tokens\":1}"
	if _, err := fmt.Fprintf(conn, plain+plain, "b", "c"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for _, want := range []int{2, 1, 1} {
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Usage struct {
				Completion int `json:"completion_tokens"`
			} `json:"usage"`
		}
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Usage.Completion != want {
			t.Errorf("completion tokens %d, %v, want %d", answer.Usage.Completion, err, want)
		}
	}
	var ids []string
	for _, e := range finish() {
		ids = append(ids, e.RequestID)
	}
	if got := strings.Join(ids, " "); got != "a b c" {
		t.Errorf("recorded %q, want a b c", got)
	}
}
