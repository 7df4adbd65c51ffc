package mockllm

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serveEnv makes the test binary a server process, so that its CPU time can be told from its clients'.
const serveEnv = "MOCKLLM_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) == "" {
		os.Exit(m.Run())
	}
	srv, err := New(Config{TTFT: 20 * time.Millisecond, ITL: 20 * time.Millisecond, CacheTokens: -1})
	if err == nil {
		var ln net.Listener
		if ln, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			err = srv.Start(ln)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(srv.Addr())
	os.Stdin.Read(make([]byte, 1)) // until the benchmark closes the pipe
	srv.Close()
}

// serverProcess starts the server and returns its address; stop returns the CPU time that it used.
func serverProcess(b *testing.B) (addr string, stop func() time.Duration) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line), func() time.Duration {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
}

// BenchmarkServer runs 2,400 streams of 24 tokens, 20 ms apart: about 5,000 requests/s and 130,000 events/s from a
// server in a process of its own, with one write an event. µs-cpu/event is the server's CPU time, kernel included.
func BenchmarkServer(b *testing.B) {
	const streams, tokens, window = 2400, 24, 3 * time.Second
	for b.Loop() {
		addr, stop := serverProcess(b)
		var events, requests atomic.Int64
		var wg sync.WaitGroup
		deadline := time.Now().Add(window)
		for i := range streams {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 480 * time.Millisecond / streams) // spreads the streams over a period
				benchmarkClient(b, addr, tokens, deadline, &requests, &events)
			})
		}
		wg.Wait()
		cpu := stop()
		b.ReportMetric(float64(requests.Load())/window.Seconds(), "requests/s")
		b.ReportMetric(float64(events.Load())/window.Seconds(), "events/s")
		b.ReportMetric(cpu.Seconds()/window.Seconds(), "cores")
		b.ReportMetric(float64(cpu.Microseconds())/float64(events.Load()), "µs-cpu/event")
	}
}

// benchmarkClient sends one request after the other on one connection and counts.
func benchmarkClient(b *testing.B, addr string, tokens int, deadline time.Time, requests, events *atomic.Int64) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer nc.Close()
	body := fmt.Sprintf(`{"prompt":[%s9],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`,
		strings.Repeat("10000,", 100), tokens)
	request := []byte(rawRequest(completions, body, "X-Request-Id: benchmark"))
	buf := make([]byte, 16<<10)
	for time.Now().Before(deadline) {
		if _, err := nc.Write(request); err != nil {
			b.Error(err)
			return
		}
		seen := 0
		for end := false; !end; {
			n, err := nc.Read(buf)
			if err != nil {
				b.Error(err)
				return
			}
			seen += bytes.Count(buf[:n], []byte("data: "))
			end = bytes.HasSuffix(buf[:n], []byte("\r\n0\r\n\r\n"))
		}
		if seen != tokens+2 {
			b.Errorf("%d events, want %d", seen, tokens+2)
			return
		}
		requests.Add(1)
		events.Add(int64(seen))
	}
}

// benchmarkReply is a reply in the middle of its stream, without a connection.
func benchmarkReply(a api) *reply {
	srv, err := New(Config{Stamp: true, ITL: time.Millisecond, Spread: 0.2, Incremental: true})
	if err != nil {
		panic(err)
	}
	r := &reply{srv: srv, cfg: &srv.cfg, api: a, id: []byte("0123456789abcdef"), createdS: 1_700_000_000, total: 1 << 60, phase: phaseTokens, part: partText, headSent: true}
	r.p.stream = true
	r.divide(a.traits())
	r.base = a.base(r, nil)
	return r
}

// TestNoAllocationPerEvent: composing an event of a running stream allocates nothing.
func TestNoAllocationPerEvent(t *testing.T) {
	for _, a := range allAPIs() {
		if a.traits().vector {
			continue
		}
		r := benchmarkReply(a)
		var buf eventBuffer
		now := int64(1)
		compose := func() {
			now++
			buf.out = r.appendDue(&buf, buf.out[:0], now)
		}
		compose()
		if n := testing.AllocsPerRun(1000, compose); n != 0 {
			t.Errorf("%s: %v allocations an event", a.traits().name, n)
		}
	}
}

func BenchmarkCompose(b *testing.B) {
	r := benchmarkReply(completionsAPI{})
	var buf eventBuffer
	b.ReportAllocs()
	for now := int64(1); b.Loop(); now++ {
		buf.out = r.appendDue(&buf, buf.out[:0], now)
	}
	if !bytes.HasSuffix(buf.out, []byte("}\n\n\r\n")) {
		b.Fatalf("%q", buf.out)
	}
	b.SetBytes(int64(len(buf.out)))
}

func BenchmarkCache(b *testing.B) {
	for name, capacity := range map[string]int64{"unlimited": -1, "pool": 3 << 20} {
		b.Run(name, func(b *testing.B) {
			var s scheduler
			s.cache = newPrefixCache(capacity, DefaultBlockTokens)
			r := rng(1)
			const blocks = 750 // the mean prompt of Mooncake's conversation trace: 12,035 tokens
			now := int64(0)
			q := &reply{cfg: &Config{}}
			b.ReportAllocs()
			for b.Loop() {
				now++
				*q = reply{cfg: q.cfg, arrivedNS: now, lease: s.get()}
				l := q.lease
				for i := range uint64(blocks) {
					l.keys = append(l.keys, finalize(i))
				}
				for i := blocks / 3; i < blocks; i++ {
					l.keys[i] = r.next()
				}
				l.prompt, l.output = blocks*DefaultBlockTokens, 343 // the trace's mean output
				s.acquire(q)
				s.release(l, now)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/blocks, "ns/block")
		})
	}
}
