package recorder

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

// setClock is the machine's clock, but that its clock of day can be set, and that time can be made to pass.
type setClock struct {
	*sched.Monotonic
	passed, moved atomic.Int64 // ns
}

func (c *setClock) Now() int64 { return c.Monotonic.Now() + c.passed.Load() }

func (c *setClock) Pair() (nowNS, wallNS int64) {
	nowNS, wallNS = c.Monotonic.Pair()
	return nowNS + c.passed.Load(), wallNS + c.moved.Load()
}

// stampsOf are the instants of a file's rows in ns, as they stand there.
func stampsOf(t *testing.T, path string) (all []int64) {
	for _, line := range strings.Split(strings.TrimSpace(unpacked(t, path)), "\n")[1:] {
		var row struct{ Timestamp float64 }
		must.Do(t, json.Unmarshal([]byte(line), &row))
		all = append(all, int64(row.Timestamp*1e6))
	}
	return all
}

// TestClockIsSet: whenever the clock of day is set, and to whatever, a request came between its sending and its answer
// on the one clock of the recorder, and the head says by how much the clock of day was set.
func TestClockIsSet(t *testing.T) {
	clock := &setClock{Monotonic: sched.NewMonotonic()}
	r := begin(t, http.HandlerFunc(answering), func(o *Options) { o.clock = clock })
	clock.passed.Store(int64(time.Hour))
	var sent, answered []int64
	moved := time.Duration(0)
	for _, step := range []time.Duration{0, 5 * time.Second, -30 * time.Millisecond, time.Hour, -2 * time.Hour, 50 * time.Millisecond} {
		clock.moved.Add(int64(step))
		moved += step
		for range 2 { // before the recorder notices, and behind that
			for range 20 {
				sent = append(sent, clock.Now())
				r.post("hello")
				answered = append(answered, clock.Now())
			}
			until(t, "rows are written", func() bool { return int(r.rows.Load()) == len(sent) })
		}
	}
	day := r.stop()
	expect.Near(t, day.Heads[0].ClockMovedMS+time.Hour.Seconds()*1000, moved.Seconds()*1000, 3, "ms in the head")
	stamps := stampsOf(t, r.o.Output)
	must.Equal(t, len(stamps), len(sent), "rows")
	const exact = 100_000 // µs are kept, and two clocks were read
	for i, at := range stamps {
		if at < sent[i]-exact || at > answered[i]+exact {
			t.Errorf("request %d came at %d ns, between %d and %d", i, at, sent[i], answered[i])
		}
	}
}

// TestRotationByTime: a file ends with its hour, whatever is on its way then. That is in the next one, by the same clock.
// An hour without rows has no file.
func TestRotationByTime(t *testing.T) {
	clock := &setClock{Monotonic: sched.NewMonotonic()}
	gate := make(chan struct{})
	r := begin(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if strings.Contains(string(body), "later") {
			<-gate
		}
		_, _ = io.WriteString(w, answer)
	}), func(o *Options) {
		o.clock = clock
		o.RotateAfter = time.Hour
	})
	pass := func(by time.Duration) { clock.passed.Add(int64(by)) }
	files := func() int { return len(must.Have(filepath.Glob(filepath.Join(filepath.Dir(r.o.Output), "*")))(t)) }
	written := func(rows int64) func() bool { return func() bool { return r.rows.Load() == rows } }
	r.post("one")
	until(t, "it is written", written(1))
	var late sync.WaitGroup
	late.Go(func() { r.post("later") })
	until(t, "it is on its way", func() bool { return r.inFlight.Load() == 1 })
	pass(59 * time.Minute)
	r.post("two")
	until(t, "it is written", written(2))
	expect.Equal(t, files(), 1, "files before the hour is over")
	pass(2 * time.Minute)
	until(t, "the next file begins", func() bool { return files() == 2 })
	close(gate)
	late.Wait()
	until(t, "it is written", written(3))
	pass(5 * time.Hour)
	until(t, "the hour is over", func() bool { return files() == 3 })
	pass(90 * time.Minute)
	time.Sleep(3 * writeEvery) // in which nothing may happen
	r.post("three")
	until(t, "it is written", written(4))
	r.post("four")
	until(t, "it is written", written(5))
	r.end()
	must.Do(t, <-r.ended)
	want := map[string][]time.Duration{"day": {0, 59 * time.Minute}, "day-2": {0}, "day-3": {451 * time.Minute, 451 * time.Minute}}
	for name, hours := range want {
		path := filepath.Join(filepath.Dir(r.o.Output), name+".jsonl.zst")
		stamps := stampsOf(t, path)
		must.Equal(t, len(stamps), len(hours), "rows of %s", name)
		for i, at := range hours {
			expect.Near(t, float64(stamps[i])/1e9, at.Seconds(), 60, "s, row %d of %s", i, name)
		}
		expect.Equal(t, must.Have(trace.Open(path, trace.Options{Strict: true}))(t).Heads[0].Rows, len(hours), "rows in the head of %s", name)
	}
	expect.Equal(t, files(), 3, "files")
}

// TestTwoRecorders: nobody takes the rows of two recorders for one day. A second one is refused while the first is at
// any file of the row, and not after that.
func TestTwoRecorders(t *testing.T) {
	r := begin(t, http.HandlerFunc(answering), func(o *Options) { o.RotateBytes = 1 })
	second := func() error {
		o := r.o
		o.Listen = "127.0.0.1:0"
		other, err := Start(o)
		if err == nil {
			ctx, end := context.WithCancel(t.Context())
			end()
			err = other.Run(ctx)
		}
		return err
	}
	expect.Error(t, second(), "another recorder writes "+r.o.Output)
	r.post("hello")
	next := "another recorder writes " + strings.Replace(r.o.Output, "day", "day-2", 1)
	until(t, "the next file begins", func() bool { err := second(); return err != nil && strings.Contains(err.Error(), next) })
	r.post("hello")
	until(t, "it goes on", func() bool { return r.rows.Load() == 2 })
	r.end()
	must.Do(t, <-r.ended)
	must.Do(t, second(), "once the first has ended")
}

// TestNoFile: what is no file is refused, and nothing is made beside it.
func TestNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "day.jsonl")
	must.Do(t, os.Mkdir(dir, 0o700))
	_, err := Start(Options{Listen: "127.0.0.1:0", Upstreams: []string{"gpu1"}, Output: dir})
	expect.Error(t, err, "--output: "+dir+" is no file; give the name of one")
	expect.Equal(t, len(must.Have(os.ReadDir(filepath.Dir(dir)))(t)), 1, "files")
}

// TestFolderGoes: if no next file can be made, rows go on into the one before, and it is said once.
func TestFolderGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "days")
	must.Do(t, os.Mkdir(dir, 0o700))
	r := begin(t, http.HandlerFunc(answering), func(o *Options) {
		o.RotateBytes = 1
		o.Output = filepath.Join(dir, "day.jsonl")
	})
	must.Do(t, os.Rename(dir, dir+"-moved"))
	for i := range 3 {
		r.post("hello")
		until(t, "it is written", func() bool { return r.rows.Load() == int64(i+1) })
	}
	r.end()
	must.Do(t, <-r.ended)
	day := must.Have(trace.Open(filepath.Join(dir+"-moved", "day.jsonl"), trace.Options{Strict: true}))(t)
	expect.Equal(t, day.Len(), 3, "rows")
	expect.Equal(t, strings.Count(r.notes.String(), "no such file"), 1, "said: %s", r.notes)
}

// TestExpect: a client that waits before it sends its body is told to go on, and gets what the server answers, also
// from one that refuses it without the body.
func TestExpect(t *testing.T) {
	r := begin(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Key") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answering(w, req)
	}), nil)
	for _, long := range []int{0, 2 * linkBytes} {
		for key, want := range map[string]int{"": http.StatusUnauthorized, "X-Key: 1\r\n": http.StatusOK} {
			conn := must.Have(net.Dial("tcp", r.listener.Addr().String()))(t)
			must.Do(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			body := asked(strings.Repeat("x", long))
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n%sContent-Length: %d\r\n\r\n", chatPath, key, len(body))
			in := bufio.NewReader(conn)
			status := 0
			for sent := false; status < 200; {
				resp := must.Have(http.ReadResponse(in, nil))(t)
				if status = resp.StatusCode; status == http.StatusContinue && !sent {
					sent = true
					_, _ = io.WriteString(conn, body)
				}
			}
			expect.Equal(t, status, want, "status")
			must.Do(t, conn.Close())
		}
	}
	expect.Equal(t, r.stop().Len(), 2, "rows")
}

// TestTrailersOfRequests: what a client sends behind its body reaches the server.
func TestTrailersOfRequests(t *testing.T) {
	r := begin(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, req.Trailer.Get("X-Sum"))
	}), nil)
	conn := must.Have(net.Dial("tcp", r.listener.Addr().String()))(t)
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST "+chatPath+" HTTP/1.1\r\nHost: x\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2;name=value\r\n{}\r\n0\r\nX-Sum: 7\r\n\r\n")
	resp := must.Have(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	expect.Equal(t, string(must.Have(io.ReadAll(resp.Body))(t)), "7", "trailer at the server")
}

// TestHalfClosed: over an upgraded connection, either side may end what it sends, and still hears the other.
func TestHalfClosed(t *testing.T) {
	r := begin(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		conn, stream, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		if req.URL.Path == "/server" {
			_, _ = io.WriteString(conn, "bye")
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		said, _ := io.ReadAll(stream)
		_, _ = fmt.Fprintf(conn, "heard %s", said)
	}), nil)
	for path, want := range map[string]string{"/client": "heard hello", "/server": "bye"} {
		conn := must.Have(net.Dial("tcp", r.listener.Addr().String()))(t)
		must.Do(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		in := bufio.NewReader(conn)
		resp := must.Have(http.ReadResponse(in, nil))(t)
		must.Equal(t, resp.StatusCode, http.StatusSwitchingProtocols, "status")
		_, _ = io.WriteString(conn, "hello")
		must.Do(t, conn.(*net.TCPConn).CloseWrite())
		expect.Equal(t, string(must.Have(io.ReadAll(in))(t)), want, path)
		must.Do(t, conn.Close())
	}
	until(t, "nothing is left of them", func() bool { return r.inFlight.Load() == 0 })
}

// pemOf writes the certificate and the key of a server to files.
func pemOf(t *testing.T, server *httptest.Server) (cert, key string) {
	pair := server.TLS.Certificates[0]
	write := func(kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), "pem")
		must.Do(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return write("CERTIFICATE", pair.Certificate[0]), write("PRIVATE KEY", must.Have(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t))
}

// TestHTTP2: many requests over one connection to a server of HTTP/2, from clients of it, each with its own end: whole,
// with a trailer, cut by the server, left by the client.
func TestHTTP2(t *testing.T) {
	left := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		expect.Equal(t, req.ProtoMajor, 2, "protocol at the server")
		body, _ := io.ReadAll(req.Body)
		if !strings.Contains(string(body), "whole") {
			_, _ = io.WriteString(w, answer[:9])
			w.(http.Flusher).Flush()
		}
		switch {
		case strings.Contains(string(body), "cut"):
			panic(http.ErrAbortHandler)
		case strings.Contains(string(body), "leave"):
			<-req.Context().Done()
			close(left)
		case strings.Contains(string(body), "trailer"):
			w.Header().Set(http.TrailerPrefix+"X-Sum", "7")
			_, _ = io.WriteString(w, answer[9:])
		default:
			_, _ = io.WriteString(w, answer)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	r := begin(t, nil, func(o *Options) {
		o.Upstreams = []string{server.URL}
		o.Insecure = true
		o.TLSCert, o.TLSKey = pemOf(t, server)
	})
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(ctx context.Context, what string) (*http.Response, error) {
		req := must.Have(http.NewRequestWithContext(ctx, http.MethodPost, r.URL()+chatPath, strings.NewReader(asked(what))))(t)
		resp, err := client.Do(req)
		if err == nil {
			expect.Equal(t, resp.ProtoMajor, 2, "protocol at the client")
		}
		return resp, err
	}
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			what := []string{"whole", "trailer", "cut"}[i%3]
			resp, err := ask(t.Context(), what)
			if err != nil {
				t.Error(err)
				return
			}
			body, err := io.ReadAll(resp.Body)
			expect.Equal(t, err != nil, what == "cut", "%s: %v", what, err)
			expect.Equal(t, string(body) == answer, what != "cut", "%s: %s", what, body)
			expect.Equal(t, resp.Trailer.Get("X-Sum") == "7", what == "trailer", "%s: trailer", what)
		})
	}
	group.Wait()
	ctx, leave := context.WithCancel(t.Context())
	resp := must.Have(ask(ctx, "leave"))(t)
	leave()
	_ = resp.Body.Close()
	<-left
	until(t, "all have ended", func() bool { return r.inFlight.Load() == 0 })
	client.CloseIdleConnections()
	day := r.stop()
	expect.Equal(t, day.Len(), 27, "rows")
	expect.Equal(t, day.Heads[0].Lost[lostAborted], 14, "cut and left")
}

// TestMemoryIsBounded: what clients and servers send without an end does not grow the heap with its length, in either
// direction, and nothing of it is left when they have gone.
func TestMemoryIsBounded(t *testing.T) {
	const clients, short, long = 40, 64 << 10, 4 << 20
	listener := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	var asked atomic.Int64 // bytes of bodies at the server
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				size, err := strconv.Atoi(req.Header.Get("X-Answer"))
				expect.Equal(t, err, nil, "X-Answer")
				if size > 0 {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
					_, _ = io.CopyN(conn, &endless{}, int64(size))
				}
				for part := make([]byte, 4096); err == nil; {
					var n int
					n, err = req.Body.Read(part)
					asked.Add(int64(n))
				}
				_, _ = io.Copy(io.Discard, conn) // until the recorder goes
			}()
		}
	}()
	r := begin(t, nil, func(o *Options) {
		o.Upstreams = []string{listener.Addr().String()}
		o.MemoryBytes = 2 << 20
	})
	heap := func() int64 {
		var m runtime.MemStats
		for range 2 { // a pool keeps what it has for one collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	// grown is by how much the heap grows while each client has sent so much of a body, and got so much of an answer.
	grown := func(sent, answered int) int64 {
		before := heap()
		asked.Store(0)
		var got atomic.Int64
		var all []net.Conn
		for range clients {
			conn := must.Have(net.Dial("tcp", r.listener.Addr().String()))(t)
			all = append(all, conn)
			length := sent + 1
			if answered > 0 {
				length = 0
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Answer: %d\r\nContent-Length: %d\r\n\r\n", chatPath, answered, length)
			must.Have(io.CopyN(conn, &endless{}, int64(sent)))(t)
			go func() {
				for part := make([]byte, 4096); ; {
					n, err := conn.Read(part)
					got.Add(int64(n))
					if err != nil {
						return
					}
				}
			}()
		}
		until(t, "all has passed", func() bool { return asked.Load() >= int64(clients*sent) && got.Load() >= int64(clients*answered) })
		during := heap() - before
		for _, conn := range all {
			_ = conn.Close()
		}
		until(t, "all have gone", func() bool { return r.inFlight.Load() == 0 })
		until(t, "nothing is held of them", func() bool { return r.budget.used.Load() == 0 })
		return during
	}
	grown(short, 0) // buffers of pools
	before := heap()
	for name, ways := range map[string][2]int64{
		"bodies":  {grown(short, 0), grown(long, 0)},
		"answers": {grown(0, short), grown(0, long)},
	} {
		t.Logf("%s: %d kB of heap for %d kB each, %d kB for %d kB", name, ways[0]>>10, short>>10, ways[1]>>10, long>>10)
		if ways[1] > 2*ways[0] {
			t.Errorf("%s of %d kB each take %d kB, and those of %d kB %d", name, short>>10, ways[0]>>10, long>>10, ways[1]>>10)
		}
	}
	if after := heap(); after > 2*before {
		t.Errorf("%d kB of heap are left, and there were %d", after>>10, before>>10)
	}
}
