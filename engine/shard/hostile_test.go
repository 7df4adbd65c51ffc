package shard

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func hostOf(t *testing.T, where string) string {
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// connect connects as soon as somebody listens, until the test ends.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestStrangers: whatever somebody without the secret says, or does not say, shards start and end as if nobody were there.
func TestStrangers(t *testing.T) {
	t.Parallel()
	hello := func(text string) string {
		return fmt.Sprintf("POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
	worlds := map[string]string{
		"silence":      "",
		"empty":        "{}\n",
		"null":         "null\n",
		"taken index":  `{"Index":0,"Count":2,"Version":"v1"}` + "\n",
		"its index":    `{"Index":1,"Count":2,"Version":"v1"}` + "\n",
		"ghost":        `{"Index":7,"Count":2,"Version":"v1"}` + "\n",
		"failed":       `{"Index":1,"Count":2,"Version":"v1","Failed":"I say so"}` + "\n",
		"another load": `{"Index":1,"Count":2,"Version":"v1","Load":"sha256:9"}` + "\n",
		"http":         hello(`{"Index":1,"Count":2,"Version":"v1","Failed":"I say so"}`),
		"half of TLS":  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"much of TLS":  "\x16\x03\x01\x40\x00" + strings.Repeat("\x01", 1<<14),
		"garbage":      strings.Repeat("\xff\x00\x16garbage", 1000),
		"questions":    `{"Index":7,"Count":2}` + "\n" + strings.Repeat(`{"Asks":true}`+"\n", 227_000),
	}
	for name, text := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where := freeURL(t)
			list := group(where, 2)
			list[1].after = 300 * time.Millisecond
			go func() { // it comes first, and it never reads
				for range 3 {
					if conn, err := net.Dial("tcp", hostOf(t, where)); err == nil {
						defer conn.Close()
						_ = conn.SetDeadline(time.Now().Add(time.Second))
						_, _ = conn.Write([]byte(text))
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
			runBounded(t, list)
			for i, m := range list {
				if m.err != nil || !m.at.Equal(list[0].at) {
					t.Errorf("shard %d: %v, start %v", i, m.err, m.at)
				}
			}
		})
	}
}

// runBounded is runAll, but a shard that does not end fails the test.
func runBounded(t *testing.T, list []*member) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); runAll(t, list) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a shard does not end")
	}
}

// TestNeverReads: who asks for the time again and again during a run, and never reads, does not keep shard 0 from leaving.
func TestNeverReads(t *testing.T) {
	t.Parallel()
	where := freeURL(t)
	list := group(where, 1)
	list[0].runs = 3 * time.Second
	question := []byte(strings.Repeat(`{"Asks":true}`+"\n", 1000))
	go func() {
		time.Sleep(2 * list[0].times.lead) // it comes during the run
		conn := connect(t, hostOf(t, where))
		_, _ = conn.Write([]byte(`{"Index":0,"Count":1,"Version":"v1"}` + "\n"))
		_ = conn.SetDeadline(time.Now().Add(time.Hour))
		for range 227 {
			if _, err := conn.Write(question); err != nil {
				return
			}
		}
	}()
	runBounded(t, list)
}

func memory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestManyConnections: 600 connections that say 1 MB each cost shard 0 a bounded memory, and do not keep shard 1 out.
func TestManyConnections(t *testing.T) {
	where := freeURL(t)
	list := group(where, 2)
	list[1].after = time.Second
	load := append([]byte(`{"Load":"`), bytes.Repeat([]byte("x"), 1<<20-100)...)
	stop := make(chan struct{})
	var strangers sync.WaitGroup
	before, most := memory(), uint64(0)
	strangers.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				most = max(most, memory())
			}
		}
	})
	for range 600 {
		strangers.Go(func() {
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				conn, err := net.Dial("tcp", hostOf(t, where))
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
				_, _ = conn.Write(load)
				select {
				case <-stop:
				case <-time.After(2 * time.Second):
				}
				_ = conn.Close()
				return
			}
		})
	}
	runBounded(t, list)
	close(stop)
	strangers.Wait()
	for i, m := range list {
		if m.err != nil {
			t.Errorf("shard %d: %v", i, m.err)
		}
	}
	if grown := int64(most) - int64(before); grown > 200<<20 {
		t.Errorf("%d MB more", grown>>20)
	} else {
		t.Logf("%d MB more", grown>>20)
	}
}

// TestEndlessAnswer: a false shard 0 that answers without end costs a shard a bounded memory, and does not start it.
func TestEndlessAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
				text := append([]byte(`{"Missing":"`), bytes.Repeat([]byte("x"), 1<<20)...)
				for {
					if _, err := conn.Write(text); err != nil {
						return
					}
					text = text[12:]
				}
			}()
		}
	}()
	list := group("tcp://"+listener.Addr().String(), 2)[1:]
	list[0].times.patience = 2 * time.Second
	before, most := memory(), uint64(0)
	done := make(chan struct{})
	go func() { defer close(done); runBounded(t, list) }()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-time.After(20 * time.Millisecond):
			most = max(most, memory())
		}
	}
	if list[0].err == nil || !strings.Contains(list[0].err.Error(), "shard 0 did not come within 2s") {
		t.Error(list[0].err)
	}
	if grown := int64(most) - int64(before); grown > 64<<20 {
		t.Errorf("%d MB more", grown>>20)
	}
}
