package shard

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func hostOf(t *testing.T, where string) string {
	u := must.Have(url.Parse(where))(t)
	return u.Host
}

// connect connects as soon as somebody listens, until the test ends.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
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

// TestStrangers: whatever somebody without the secret says, or does not say, shards start and end as if nobody were
// there.
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
			runWell(t, list)
		})
	}
}

// TestNeverReads: who asks for the time again and again during a run, and never reads, does not keep shard 0 from
// leaving.
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
	runAll(t, list)
}

// grown is by how much the memory of this process grows at most while f runs, bytes.
func grown(f func()) int64 {
	memory := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before, most := memory(), int64(0)
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		select {
		case <-done:
			return most - before
		case <-time.After(20 * time.Millisecond):
			most = max(most, memory())
		}
	}
}

// TestManyConnections: 600 connections that say 1 MB each cost shard 0 a bounded memory, and do not keep shard 1 out.
func TestManyConnections(t *testing.T) {
	where := freeURL(t)
	list := group(where, 2)
	list[1].after = time.Second
	load := append([]byte(`{"Load":"`), bytes.Repeat([]byte("x"), 1<<20-100)...)
	stop := make(chan struct{})
	var strangers sync.WaitGroup
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
	more := grown(func() { runWell(t, list) })
	close(stop)
	strangers.Wait()
	if t.Logf("%d MB more", more>>20); more > 200<<20 {
		t.Error("that is too much")
	}
}

// TestEndlessAnswer: a false shard 0 that answers without end, whether it knows the secret or not, costs a shard a
// bounded memory, and does not start it.
func TestEndlessAnswer(t *testing.T) {
	proof := must.Have(identity(nil))(t)
	for head, secret := range map[string]*tls.Config{
		`{"Missing":"`: nil, "HTTP/1.1 200 OK\r\n\r\n": proof, "HTTP/1.1 200 OK\r\nX: ": proof, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n": proof,
	} {
		listener := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
		if secret != nil {
			listener = tls.NewListener(listener, secret)
		}
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
					_, err := io.WriteString(conn, head)
					for text := bytes.Repeat([]byte("x"), 1<<16); err == nil; {
						_, err = conn.Write(text)
					}
				}()
			}
		}()
		list := group("tcp://"+listener.Addr().String(), 2)[1:]
		list[0].times.patience, list[0].times.silence = time.Second, time.Second
		more := grown(func() { runAll(t, list) })
		_ = listener.Close()
		if list[0].err == nil || secret == nil && !strings.Contains(list[0].err.Error(), "shard 0 did not come within 1s") || more > 64<<20 {
			t.Errorf("%q: %v, %d MB more", head, list[0].err, more>>20)
		}
	}
}

// proxy is the network between a shard and shard 0.
type proxy struct {
	where string // what the shard takes for shard 0

	mu    sync.Mutex
	conns []net.Conn
	sent  [][]byte // by the shard, a connection each
	held  chan struct{}
}

func startProxy(t *testing.T, to string) *proxy {
	listener := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{where: "tcp://" + listener.Addr().String(), held: make(chan struct{})}
	t.Cleanup(func() { _ = listener.Close(); p.cut() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			conn, err := net.Dial("tcp", hostOf(t, to))
			if err != nil {
				_ = from.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, from, conn)
			p.sent = append(p.sent, nil)
			n := len(p.sent) - 1
			p.mu.Unlock()
			go p.pass(conn, from, func(b []byte) { p.sent[n] = append(p.sent[n], b...) })
			go p.pass(from, conn, func([]byte) {})
		}
	}()
	return p
}

// pass carries what comes, until the network is held or cut. An end is carried, too.
func (p *proxy) pass(to, from net.Conn, note func([]byte)) {
	buf := make([]byte, 1<<14)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		note(buf[:n])
		p.mu.Unlock()
		select {
		case <-p.held:
			return
		default:
		}
		_, failed := to.Write(buf[:n])
		if err != nil || failed != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

// cut ends all connections, as the death of a process does.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
}

// hold lets nothing through any more, and says so to nobody, as a machine that is switched off does.
func (p *proxy) hold() { close(p.held) }

// TestLost: if shard 1 and shard 0 lose each other before the start, all end, each with the name of who was lost.
// During the run nobody does, and none waits for the lost one.
func TestLost(t *testing.T) {
	t.Parallel()
	for how, lose := range map[string]func(*proxy){"cut": (*proxy).cut, "held": (*proxy).hold} {
		for _, phase := range []string{"joined", "ready", "run"} {
			t.Run(how+" "+phase, func(t *testing.T) {
				t.Parallel()
				where := freeURL(t)
				list := group(where, 3)
				for _, m := range list {
					m.times.silence = 4 * time.Second
				}
				p := startProxy(t, where)
				list[1].hello.Where = p.where
				third := make(chan struct{})
				list[2].joined = func() { close(third) }
				lost := func() {
					<-third
					lose(p)
				}
				switch phase {
				case "joined":
					list[1].prepares, list[1].joined = 20*time.Second, lost
				case "ready":
					list[2].prepares = 20 * time.Second
					list[1].joined = func() { time.AfterFunc(500*time.Millisecond, lost) }
				case "run":
					list[1].started = lost
				}
				runAll(t, list)
				wants := []string{"shard 1 (", "shard 0 ", "shard 1 ("}
				for i, m := range list {
					switch {
					case phase == "run":
						if m.err != nil {
							t.Errorf("shard %d: %v", i, m.err)
						}
					case m.err == nil || !strings.Contains(m.err.Error(), wants[i]) || !strings.Contains(m.err.Error(), unsent):
						t.Errorf("shard %d: %v; want %q", i, m.err, wants[i])
					case !strings.Contains(m.err.Error(), map[string]string{"cut": "ended before the start", "held": "no sign of life"}[how]):
						t.Errorf("shard %d: %v", i, m.err)
					}
				}
			})
		}
	}
}

// TestReplayed: what a shard has sent is of no use to whoever says it again.
func TestReplayed(t *testing.T) {
	t.Parallel()
	where := freeURL(t)
	list := group(where, 3)
	p := startProxy(t, where)
	list[1].hello.Where = p.where
	list[2].after = time.Second
	list[1].joined = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, text := range p.sent {
			if len(text) == 0 {
				continue
			}
			conn := connect(t, hostOf(t, where))
			_, _ = conn.Write(text)
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			answer, _ := io.ReadAll(conn)
			if bytes.Contains(answer, []byte("HTTP/")) {
				t.Errorf("answered: %q", answer)
			}
		}
	}
	runWell(t, list)
	p.mu.Lock() // an end may still be on its way
	defer p.mu.Unlock()
	for _, text := range p.sent {
		if bytes.Contains(text, []byte("Version")) || bytes.Contains(text, []byte("/hello")) {
			t.Errorf("sent in clear: %q", text)
		}
	}
}

// TestSecret: who has another secret, or none, is told so, and the others start without it.
func TestSecret(t *testing.T) {
	where := freeURL(t)
	t.Setenv(SecretVariable, strings.Repeat("a", 32))
	list := group(where, 2)
	joined := make(chan struct{})
	list[0].joined = func() { close(joined) }
	wrong := group(where, 2)[1]
	wrong.times.silence = 2 * time.Second
	done := make(chan struct{})
	go func() { defer close(done); runAll(t, list[:1]) }()
	<-joined
	t.Setenv(SecretVariable, strings.Repeat("b", 32))
	runAll(t, []*member{wrong})
	expect.Error(t, wrong.err, "has another secret: give this shard and shard 0 the same FASTREPLAY_SHARD_SECRET")
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte(strings.Repeat("a", 32)+"\n"), 0o600))
	t.Setenv(SecretVariable, "")
	t.Setenv(SecretFileVariable, file)
	runAll(t, list[1:])
	<-done
	allWell(t, list)
}

// TestSecretWanted: an address that others reach needs a secret, and one that cannot be guessed.
func TestSecretWanted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte("short\n"), 0o600))
	for _, c := range []struct{ where, secret, file, want string }{
		{"tcp://192.0.2.1:7000", "", "", "make it with: openssl rand -hex 32"},
		{"tcp://localhost.example:7000", "", "", "make it with: openssl rand -hex 32"},
		{"tcp://0.0.0.0:7000", "", "", "make it with: openssl rand -hex 32"},
		{"tcp://192.0.2.1:7000", "short", "", "the secret has 5 characters"},
		{"tcp://127.0.0.1:7000", "short", "", "the secret has 5 characters"},
		{"tcp://192.0.2.1:7000", "", file, "the secret has 5 characters"},
		{"tcp://192.0.2.1:7000", "", file + "x", "no such file"},
		{"tcp://192.0.2.1:7000", strings.Repeat("s", 16), "", ""},
		{"tcp://localhost:7000", "", "", ""},
		{"tcp://127.0.0.2:7000", "", "", ""},
		{"tcp://[::1]:7000", "", "", ""},
		{"directory", "short", "", ""},
	} {
		t.Setenv(SecretVariable, c.secret)
		t.Setenv(SecretFileVariable, c.file)
		if _, err := parsePlace(c.where); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestHostileDirectory: what is in place of the file that shard 0 writes ends a shard with a line, or lets it wait.
func TestHostileDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(name string) error
		want string
	}{
		"device":    {func(name string) error { return os.Symlink("/dev/zero", name) }, "is not what shard 0 writes"},
		"directory": {func(name string) error { return os.Mkdir(name, 0o700) }, "is not what shard 0 writes"},
		"large":     {func(name string) error { return os.WriteFile(name, make([]byte, 1<<20), 0o600) }, "is not what shard 0 writes"},
		"null":      {func(name string) error { return os.WriteFile(name, []byte("null"), 0o600) }, "it has no address"},
		"half":      {func(name string) error { return os.WriteFile(name, []byte(`{"Addr`), 0o600) }, "did not come within"},
		"killed":    {func(name string) error { return os.WriteFile(name, []byte(`{"Addresses":["127.0.0.1:1"]}`), 0o600) }, "another run has used it"},
		"endless words": {func(name string) error {
			return os.WriteFile(name, []byte(`{"Over":"`+strings.Repeat("x", 50_000)+`"}`), 0o600)
		}, "this barrier is over: xxx"},
		"not yet made": {func(string) error { return nil }, "it has not begun"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must.Do(t, c.make(filepath.Join(dir, "begin")))
			list := group(dir, 2)[1:]
			list[0].times.patience = 2 * time.Second
			runAll(t, list)
			expect.Error(t, list[0].err, c.want)
			if words := fmt.Sprint(list[0].err); len(words) > 3000 {
				t.Errorf("%d bytes of words", len(words))
			}
		})
	}
}

// TestSwappedFile: what somebody puts in place of the file during the run is not written through, and shard 0 does not
// wait for it.
func TestSwappedFile(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]func(name, other string) error{
		"link":      func(name, other string) error { return os.Symlink(other, name) },
		"pipe":      func(name, _ string) error { return syscall.Mkfifo(name, 0o600) },
		"directory": func(name, _ string) error { return os.Mkdir(name, 0o700) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			list := group(t.TempDir(), 1)
			name, other := filepath.Join(list[0].hello.Where, "begin"), filepath.Join(t.TempDir(), "other")
			must.Do(t, os.WriteFile(other, []byte("mine"), 0o600))
			list[0].joined = func() {
				expect.Equal(t, errors.Join(os.Remove(name), put(name, other)), nil)
			}
			runAll(t, list)
			if text, err := os.ReadFile(other); err != nil || string(text) != "mine" {
				t.Errorf("%v, %q", err, text)
			}
			if files, err := os.ReadDir(list[0].hello.Where); err != nil || len(files) != 1 {
				t.Errorf("%v, %v", err, files)
			}
		})
	}
}

// TestDirectorySecret: the file by which shards know each other is its owner's alone, and has no secret any more after
// the run.
func TestDirectorySecret(t *testing.T) {
	t.Parallel()
	list := group(t.TempDir(), 1)
	name := filepath.Join(list[0].hello.Where, "begin")
	read := func() (r rendezvous) {
		text, err := os.ReadFile(name)
		info, failed := os.Stat(name)
		if err != nil || failed != nil || json.Unmarshal(text, &r) != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v, %v, %q", err, failed, info, text)
		}
		return r
	}
	list[0].joined = func() {
		if r := read(); len(r.Secret) != drawnSecret || len(r.Addresses) == 0 {
			t.Errorf("%+v", r)
		}
	}
	runAll(t, list)
	if r := read(); len(r.Secret) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestKnowsTheSecret: who knows the secret and misbehaves costs shard 0 a bounded time and memory, and is told what is
// wrong.
func TestKnowsTheSecret(t *testing.T) {
	t.Parallel()
	where := freeURL(t)
	list := group(where, 2)
	list[1].after = 2 * time.Second
	done := make(chan struct{})
	go func() { defer close(done); runAll(t, list) }()
	connect(t, hostOf(t, where))
	proof := must.Have(identity(nil))(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: proof}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for _, c := range []struct{ path, text, want string }{
		{"/hello", "{}", "this is no shard"},
		{"/hello", "null", "this is no shard"},
		{"/hello", "garbage", "this is no shard"},
		{"/hello", `{"Index":-1,"Count":2}`, "this is no shard"},
		{"/hello", `{"Index":7,"Count":2}`, "this is no shard"},
		{"/hello", strings.Repeat("x", 1<<21), ""},
		{"/hello", `{"Index":0,"Count":2,"Version":"v1"}`, "is there already"},
		{"/hello", `{"Index":0,"Count":2,"Version":"v1","Failed":"I say so"}`, "is there already"},
		{"/clock", "", "there is no start"},
		{"/other", "", "404"},
	} {
		response, err := client.Post("https://"+hostOf(t, where)+c.path, "application/json", strings.NewReader(c.text))
		if err != nil {
			expect.Equal(t, c.want, "", "%.50q: %v", c.text, err)
			continue
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		expect.Contains(t, string(text), c.want, "%.50q: %q", c.text, text)
	}
	var many []net.Conn
	for range 100 { // who know the secret are not bounded by the strangers' bound
		conn, err := tls.Dial("tcp", hostOf(t, where), proof)
		if err != nil {
			break
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte("POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"))
		many = append(many, conn)
	}
	client.CloseIdleConnections()
	for _, conn := range many {
		_ = conn.Close()
	}
	<-done
	allWell(t, list)
}

// TestManyMissing: whom shard 0 waits for is told in a line, however many there are.
func TestManyMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := group(dir, 1000)[:2]
	said := make(chan string, 1000)
	for _, m := range list {
		m.times.remind, m.times.patience = 50*time.Millisecond, 5*time.Second
	}
	list[1].hello.Say = func(text string) { said <- text }
	runAll(t, list)
	want := "waiting for the other shards; not there: shard 2, 3, 4"
	found := false
	for len(said) > 0 {
		text := <-said
		found = found || strings.HasPrefix(text, want) && strings.HasSuffix(text, "21 and 978 more")
	}
	expect.Equal(t, found, true, "told whom it waits for")
	expect.Error(t, list[1].err, "shards are missing 5s after shard 0 was ready")
}

// TestToldWhileShardZeroIsBusy: a shard that is ready is told whom it waits for, also before shard 0 is ready.
func TestToldWhileShardZeroIsBusy(t *testing.T) {
	t.Parallel()
	list := group(t.TempDir(), 3)
	told, third := make(chan struct{}), make(chan struct{})
	list[0].joined = func() { <-third } // until then it is not ready
	list[2].waits, list[2].joined = told, func() { close(third) }
	said := make(chan string, 1000)
	list[1].times.remind = 200 * time.Millisecond
	var once sync.Once
	list[1].hello.Say = func(text string) {
		said <- text
		if strings.Contains(text, "not there") {
			once.Do(func() { close(told) })
		}
	}
	runAll(t, list)
	first := ""
	for len(said) > 0 && first == "" {
		if text := <-said; strings.Contains(text, "not there") {
			first = text
		}
	}
	if want := "waiting for the other shards; not ready: shard 0; not there: shard 2"; first != want || list[1].err != nil {
		t.Errorf("%q, want %q; %v", first, want, list[1].err)
	}
}

// TestSecondOfAnIndex: a second shard of an index is told so, before the start and after it, and the others run.
func TestSecondOfAnIndex(t *testing.T) {
	t.Parallel()
	where := freeURL(t)
	list := group(where, 2)
	second, late := group(where, 2)[1], group(where, 2)[1]
	list[1].joined = func() { runAll(t, []*member{second}) }
	list[1].started = func() { runAll(t, []*member{late}) }
	runWell(t, list)
	for _, m := range []*member{second, late} {
		expect.Error(t, m.err, "shard 1 (", "the second shard 1")
		expect.Error(t, m.err, "is there already: two shards have one index, or it was started again", "the second shard 1")
	}
}
