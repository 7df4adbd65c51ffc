package bench

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
)

// hostileServer commits the fault of the sweep that a request's id names, and checks that the request came unchanged.
type hostileServer struct {
	net.Listener
	cells  []*sweepCell
	closed atomic.Int64 // connections that it ended without saying so before, so that a next request may be lost
	wrong  atomic.Int64 // requests that came changed
}

func startHostileServer(t *testing.T, cells []*sweepCell) *hostileServer {
	s := &hostileServer{Listener: must.Have(net.Listen("tcp", "127.0.0.1:0"))(t), cells: cells}
	t.Cleanup(func() { _ = s.Close() })
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go s.serve(c.(*net.TCPConn))
		}
	}()
	return s
}

func (s *hostileServer) serve(tcp *net.TCPConn) {
	defer tcp.Close()
	c := &sweepConn{Conn: tcp, tcp: tcp, in: bufio.NewReader(tcp), stallFor: 5 * hostilePatience}
	for {
		id, length, err := readHead(c.in)
		if err != nil {
			return
		}
		number, digest, _ := strings.Cut(id, "-")
		n, err := strconv.Atoi(number)
		if err != nil {
			return
		}
		cell := s.cells[n]
		c.attempt = &sweepAttempt{cell: cell}
		if cell.early != nil {
			cell.early(c, length)
			return
		}
		sum := sha256.New()
		if _, err := io.CopyN(sum, c.in, length); err != nil {
			return // the client went away
		}
		if got := fmt.Sprintf("%x", sum.Sum(nil)); got != digest && digest != spoiled {
			s.wrong.Add(1)
		}
		if !cell.play(c) {
			s.closed.Add(1)
			return
		}
	}
}

// hostilePatience is how long a client waits for an answer that stalls, and otherPatience for others.
const (
	hostilePatience = 400 * time.Millisecond
	otherPatience   = 2 * time.Minute
)

// reply is what a client got.
type reply struct {
	status int
	header http.Header
	body   []byte
	failed error
}

// askFor posts a body for a cell.
func askFor(client *http.Client, url string, cell int, patience time.Duration, body []byte) (r reply) {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return reply{failed: err}
	}
	req.Header.Set("X-Request-Id", fmt.Sprintf("%d-%x", cell, sha256.Sum256(body)))
	req.Header.Set("Content-Type", "application/json")
	timed := *client
	timed.Timeout = patience
	resp, err := timed.Do(req)
	if err != nil {
		return reply{failed: err}
	}
	defer resp.Body.Close()
	r.status = resp.StatusCode
	r.header = resp.Header
	for _, name := range []string{"Connection", "Keep-Alive"} {
		r.header.Del(name) // of one connection, RFC 9110, section 7.6.1
	}
	r.body, r.failed = io.ReadAll(resp.Body)
	return r
}

// spoiled stands for the digest of a request that need not come whole.
const spoiled = "spoiled"

// spoil is a client that does what none should: it goes away amid its request or its answer, or sends no HTTP.
func spoil(address, path string, body []byte, chance *rand.Rand) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer c.Close()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: 0-"+spoiled+"\r\nContent-Length: %d\r\n\r\n", path, len(body))
	switch chance.IntN(4) {
	case 0:
		_, _ = io.WriteString(c, head+string(body[:len(body)/2]))
	case 1:
		_, _ = io.WriteString(c, head+string(body))
		_, _ = io.ReadFull(c, make([]byte, 20))
	case 2:
		_, _ = io.WriteString(c, head[:len(head)/2])
	case 3:
		_, _ = io.WriteString(c, "\x16\x03\x01\x00garbage\r\n\r\n")
	}
	if chance.IntN(2) == 0 {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

// TestRecorderSweep: a client of net/http gets the same through the recorder as from the server itself, byte for byte,
// whatever the server does, and where that is a failure it is one through the recorder, after bytes that the server did
// send. Each request reaches the server as it was sent. Other clients go away and send garbage meanwhile.
// FASTREPLAY_SWEEP=100000 is its long form.
func TestRecorderSweep(t *testing.T) {
	t.Parallel()
	total := 1600
	if text := os.Getenv(sweepLong); text != "" {
		total = must.Have(strconv.Atoi(text))(t)
	}
	paths := map[string]string{"completions": "/v1/completions", "chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
	for api, path := range paths {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprint(api, stream), func(t *testing.T) {
				t.Parallel()
				sweepRecorder(t, newSweepCells(sweepAPIs()[api], stream, false), path, total/8)
			})
		}
	}
}

func sweepRecorder(t *testing.T, cells []*sweepCell, path string, total int) {
	s := startHostileServer(t, cells)
	rec := startRecorder(t, "http://"+s.Addr().String())
	direct := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, CheckRedirect: unfollowed}
	through := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}, CheckRedirect: unfollowed}
	var again, failed, exact atomic.Int64
	var next atomic.Int64
	var clients sync.WaitGroup
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for client := range 24 {
		clients.Go(func() {
			chance := rand.New(rand.NewPCG(seed, uint64(client)))
			for int(next.Add(1)) <= total {
				cell := chance.IntN(len(cells))
				body := fmt.Appendf(nil, `{"model":"m","prompt":"%s"}`, strings.Repeat("word ", chance.IntN(400)))
				if chance.IntN(40) == 0 {
					body = fmt.Appendf(nil, `{"model":"m","prompt":"%s"}`, strings.Repeat("word ", 50_000))
				}
				if chance.IntN(16) == 0 {
					spoil(strings.TrimPrefix(rec.url, "http://"), path, body, chance)
				}
				patience := otherPatience
				if slices.Contains(cells[cell].want, "timeout") {
					patience = hostilePatience
				}
				var want, got reply
				why := ""
				// The server may have ended the connection before it saw the request, and a busy machine one of the two
				// late: what is the recorder's own comes each time.
				for range 12 {
					want = askFor(direct, "http://"+s.Addr().String()+path, cell, patience, body)
					got = askFor(through, rec.url+path, cell, patience, body)
					if why = differs(cells[cell], want, got); why == "" {
						break
					}
					again.Add(1)
				}
				if why != "" {
					t.Errorf("%q: %s\n directly %d %v %v %.200q\n through  %d %v %v %.200q", cells[cell].name, why, want.status, want.header, want.failed, want.body, got.status, got.header, got.failed, got.body)
				}
				if want.failed != nil {
					failed.Add(1)
				} else {
					exact.Add(1)
				}
			}
		})
	}
	clients.Wait()
	t.Logf("%d answers equal by bytes, %d failures as the server made them, %d asked again of %d ended connections", exact.Load(), failed.Load(), again.Load(), s.closed.Load())
	must.Equal(t, s.wrong.Load(), 0, "requests that came changed")
	if again.Load() > s.closed.Load() {
		t.Error("the recorder failed more often than the server ended connections")
	}
	rec.interrupt(t)
}

func unfollowed(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// differs says how what came through the recorder is another thing than what came directly; "" = it is not.
func differs(cell *sweepCell, want, got reply) string {
	racing := cell.early != nil || strings.Contains(cell.name, "rst") // what was sent before may be lost or not
	switch {
	case cell.name == "101": // nobody asked for it, and the client takes it
		return ""
	case want.failed == nil && got.failed == nil:
		if racing && got.status == http.StatusBadGateway {
			return ""
		}
		if want.status != got.status || !maps.EqualFunc(want.header, got.header, slices.Equal) || sha256.Sum256(want.body) != sha256.Sum256(got.body) {
			return "another answer"
		}
	case want.failed == nil:
		if !racing {
			return "a failure that the server did not make"
		}
	case got.failed == nil:
		if !racing && got.status != http.StatusBadGateway {
			return "an answer in place of a failure"
		}
	case !bytes.HasPrefix(want.body, got.body) && !bytes.HasPrefix(got.body, want.body):
		return "other bytes before the failure"
	}
	return ""
}
