package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// The streams of BenchmarkReceive: 50,000 events a second.
const (
	benchmarkStreams = 1000
	benchmarkTokens  = 250
	benchmarkITL     = 20 * time.Millisecond
)

// streamArgument makes this test program the server of BenchmarkReceive. It answers each request of so many bytes with
// tokens, each in a write of its own.
const streamArgument = "stream"

func serveStreams(requestBytes string) error {
	size, err := strconv.Atoi(requestBytes)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	token := chunk(events(1))
	tail := chunk(events(0, finish, usage(64, benchmarkTokens, 0), done)) + "0\r\n\r\n"
	s := &server{Listener: ln, handle: func(_ int64, c net.Conn) {
		for buf := make([]byte, size); ; {
			if _, err := io.ReadFull(c, buf); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
			next := time.Now()
			for range benchmarkTokens {
				next = next.Add(benchmarkITL)
				time.Sleep(time.Until(next))
				_, _ = io.WriteString(c, token)
			}
			_, _ = io.WriteString(c, tail)
		}
	}}
	s.run()
	return nil
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// BenchmarkReceive measures the CPU time of an event that comes in a read of its own: with epoll readers, and with a
// goroutine for each connection. Each operation is a whole run of 5 s.
func BenchmarkReceive(b *testing.B) {
	if runtime.GOOS == "linux" {
		b.Run("epoll", func(b *testing.B) { benchmarkReceive(b, true) })
	}
	b.Run("goroutines", func(b *testing.B) { benchmarkReceive(b, false) })
}

func benchmarkReceive(b *testing.B, watched bool) {
	w, _ := equalWork(b, benchmarkStreams, openPlan)
	w.Targets[0].Endpoints[0] = startStreams(b, w.Prebuilt.Largest())
	stamps := wire.Stamps{Receive: true}
	if err := wire.ProbeStamps(stamps); err != nil {
		b.Log("without stamps, so events that shared a read count as one read: ", err)
		stamps = wire.Stamps{}
	}
	cpu := 0.0
	lag := new(stats.Distribution)
	for b.Loop() {
		k := new(sink)
		r := newRun(b, oneThread, w, k)
		r.cfg.Spin, r.cfg.Stamps = time.Nanosecond, stamps
		for _, p := range r.pools {
			p.dial.Epoll, p.dial.Stamps = watched, stamps
		}
		r.Connect(context.Background())
		found := must.Have(r.Do(context.Background()))(b)
		for _, rec := range k.records {
			if rec.Outcome != record.OK || rec.Chunks != benchmarkTokens {
				b.Fatalf("%v %q, %d chunks; want %d", rec.Outcome, rec.Error, rec.Chunks, benchmarkTokens)
			}
		}
		cpu += found.Client.CPUS
		lag.Merge(r.readLag.lag)
	}
	b.ReportMetric(float64(b.N*benchmarkStreams*benchmarkTokens)/cpu, "events/cpu-s")
	if stamps.Receive {
		b.ReportMetric(float64(lag.Count())/cpu, "reads/cpu-s")
		b.ReportMetric(float64(lag.QuantileNS(500)), "ns-lag-p50")
		b.ReportMetric(float64(lag.QuantileNS(990)), "ns-lag-p99")
	}
}

// startStreams starts a server of streams in a process of its own and returns its address.
func startStreams(b *testing.B, requestBytes int) netip.AddrPort {
	cmd := exec.Command(os.Args[0], streamArgument, strconv.Itoa(requestBytes))
	out := must.Have(cmd.StdoutPipe())(b)
	must.Do(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line := must.Have(bufio.NewReader(out).ReadString('\n'))(b)
	return netip.MustParseAddrPort(strings.TrimSpace(line))
}
