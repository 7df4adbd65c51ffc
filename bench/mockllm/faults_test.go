package mockllm

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	for text, want := range map[string]Fault{
		"status:503@0.25":   {FaultStatus, 503, 0, 0.25},
		"status":            {FaultStatus, 500, 0, 1},
		"reset-after:7":     {FaultResetAfter, 7, 0, 1},
		" stall:0 ":         {FaultStall, 0, 0, 1},
		"slow-bytes:20us":   {FaultSlowBytes, 0, 20 * time.Microsecond, 1},
		"idle-close":        {FaultIdleClose, 0, 0, 1},
		"idle-close:3s@0":   {FaultIdleClose, 0, 3 * time.Second, 0},
		"reset-before@1e-3": {FaultResetBefore, 0, 0, 0.001},
	} {
		if got, err := ParseFault(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "unknown", "nonsense:1": "known are status:N", "status:99": "between 200 and 599", "status:x": "argument", "status@2": "between 0 and 1",
		"status@x": "probability", "status@NaN": "between 0 and 1", "reset-before:1": "no argument", "slow-bytes:-1s": "negative", "slow-bytes:5": "argument",
		"reset-after:-1": "between 0", "split:1": "between 2",
	} {
		if _, err := ParseFault(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := (&Config{}).Validate(); err != nil {
		t.Error("zero configuration:", err)
	}
	bad := Config{TTFT: -1, Spread: 2, Slots: -1, MaxQueue: 5, MaxModelTokens: -1, TemplateHead: -1, MeanOutput: -1, EmptyChunks: 1.5, KeepAlive: -1,
		Pacers: -1, Faults: []Fault{{Kind: "x"}}}
	err := bad.Validate()
	for _, want := range []string{"latencies", "spread", "slots", "queue", "model length", "template", "mean output", "empty chunks", "keep-alive", "pacers", `"x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := New(bad); err == nil {
		t.Error("New accepts it")
	}
}

// faultStream asks for five tokens.
const faultStream = `{"prompt":[7,8,9],"max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`

// TestFaults asks for each fault by header and looks at what a client gets, over plain TCP and TLS, with gzip or not.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault  string
		err    error // of the exchange or of the body, nil = none
		tokens int   // token chunks before it
		end    ending
	}{
		{"reset-before", syscall.ECONNRESET, 0, endFault},
		{"close-before", io.EOF, 0, endFault},
		{"reset-after:0", syscall.ECONNRESET, 0, endFault},
		{"reset-after:3", syscall.ECONNRESET, 3, endFault},
		{"truncate:0", io.ErrUnexpectedEOF, 0, endFault},
		{"truncate:2", io.ErrUnexpectedEOF, 2, endFault},
		{"truncate:5", io.ErrUnexpectedEOF, 5, endFault}, // all tokens, but no end
		{"slow-bytes:1us", nil, 5, endDone},
		{"split", nil, 5, endDone},
		{"no-usage", nil, 5, endDone},
		{"short:2", nil, 2, endDone},
		{"no-length", nil, 5, endDone},
		{"interim:102", nil, 5, endDone},
		{"idle-close:1h", nil, 5, endDone},
		{"big-event:300000", nil, 5, endDone},
	} {
		t.Run(c.fault, func(t *testing.T) {
			ts := start(t, Config{ITL: time.Millisecond})
			resp, text, err := ts.post(completions, faultStream, "X-Mock-Fault", c.fault, "X-Request-Id", "f")
			if c.err == nil && err != nil || !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v (body %q)", err, c.err, text)
			}
			if resp != nil {
				if a := parseStream(t, text); a.tokens != c.tokens || a.done != (c.err == nil) {
					t.Errorf("%d tokens, done %v", a.tokens, a.done)
				}
			} else if c.tokens > 0 {
				t.Error("no response")
			}
			l := ts.lines()["f"]
			if l.End != c.end || l.Fault == "" || !strings.HasPrefix(c.fault, l.Fault) || l.Completion != nil && *l.Completion != c.tokens {
				t.Errorf("log %+v", l)
			}
		})
	}
}

func TestFaultStatus(t *testing.T) {
	ts := start(t, Config{})
	for _, status := range []int{429, 500, 503} {
		resp, text := ts.mustPost(status, completions, faultStream, "X-Mock-Fault", fmt.Sprint("status:", status))
		var c chunk
		if err := json.Unmarshal([]byte(text), &c); err != nil || c.Error.Code != status || (resp.Header.Get("Retry-After") != "") != (status != 500) {
			t.Errorf("%s: %v %v", text, err, resp.Header)
		}
	}
	if _, text := ts.mustPost(204, completions, faultStream, "X-Mock-Fault", "status:204"); text != "" {
		t.Errorf("204 with the body %q", text)
	}
	if n := ts.Stats().Connections; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestFaultErrorEvent: an error object inside a 200 stream; the connection lives on.
func TestFaultErrorEvent(t *testing.T) {
	ts := start(t, Config{})
	a := ts.stream(completions, faultStream, "X-Mock-Fault", "error-event:2")
	if a.tokens != 2 || !a.done || a.finish != "" || len(a.chunks) != 3 || a.chunks[2].Error == nil || a.chunks[2].Error.Code != 500 {
		t.Errorf("got %+v", a)
	}
	ts.stream(completions, faultStream)
	if n := ts.Stats().Connections; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestFaultNoFinish(t *testing.T) {
	ts := start(t, Config{FinishChunk: true})
	a := ts.stream(completions, faultStream, "X-Mock-Fault", "no-finish")
	if a.tokens != 5 || a.done || a.finish != "" || len(a.chunks) != 5 {
		t.Errorf("got %+v", a)
	}
}

func TestFaultBadJSON(t *testing.T) {
	ts := start(t, Config{})
	_, text := ts.mustPost(200, completions, faultStream, "X-Mock-Fault", "bad-json:2")
	events := strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n")
	if len(events) != 8 || json.Valid([]byte(strings.TrimPrefix(events[2], "data: "))) || events[7] != "data: [DONE]" {
		t.Fatalf("got %q", events)
	}
	parseStream(t, strings.Join(slices.Delete(events, 2, 3), "\n\n")+"\n\n") // the rest is sound
}

func TestFaultBadChunk(t *testing.T) {
	ts := start(t, Config{})
	_, text, err := ts.post(completions, faultStream, "X-Mock-Fault", "bad-chunk:2")
	if err == nil || !strings.Contains(err.Error(), "chunk") || parseStream(t, text).tokens != 2 {
		t.Errorf("error %v after %q", err, text)
	}
}

func TestFaultBadStatus(t *testing.T) {
	ts := start(t, Config{})
	if _, _, err := ts.post(completions, faultStream, "X-Mock-Fault", "bad-status"); err == nil || !strings.Contains(err.Error(), "malformed HTTP status") {
		t.Errorf("error %v", err)
	}
}

func TestFaultInterim(t *testing.T) {
	ts := start(t, Config{})
	var interim []int
	req := ts.request(completions, faultStream, "X-Mock-Fault", "interim:103")
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { interim = append(interim, code); return nil },
	}))
	resp, err := ts.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if !slices.Equal(interim, []int{103}) || resp.StatusCode != 200 {
		t.Errorf("interim %v, status %d", interim, resp.StatusCode)
	}
}

func TestFaultNoLength(t *testing.T) {
	ts := start(t, Config{})
	for _, body := range []string{faultStream, strings.Replace(faultStream, "true", "false", 1)} {
		resp, text := ts.mustPost(200, completions, body, "X-Mock-Fault", "no-length")
		if resp.ContentLength != -1 || resp.TransferEncoding != nil || !resp.Close || !strings.Contains(text, "total_tokens\":8") {
			t.Errorf("length %d, %v, close %v: %s", resp.ContentLength, resp.TransferEncoding, resp.Close, text)
		}
	}
}

// TestFaultStall: N tokens, then nothing, until the client hangs up.
func TestFaultStall(t *testing.T) {
	ts := start(t, Config{})
	nc := ts.raw(faultStream, "X-Mock-Fault: stall:2", "X-Request-Id: s")
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(resp.Body)
	for range 4 { // two events with their blank lines
		if _, err := body.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if body.Buffered() > 0 || ts.Stats().Running != 1 {
		t.Errorf("%d more bytes, %d running", body.Buffered(), ts.Stats().Running)
	}
	nc.Close()
	eventually(t, "the stalled request ends", func() bool { return ts.Stats().Running == 0 })
	if l := ts.lines()["s"]; l.End != endGone || *l.Completion != 2 {
		t.Errorf("log %+v", l)
	}
}

// TestFaultIdleClose: the connection is closed when it was idle for so long, without a warning in the response.
func TestFaultIdleClose(t *testing.T) {
	for _, d := range []string{"0s", "10ms"} {
		ts := start(t, Config{})
		nc := ts.raw(faultStream, "X-Mock-Fault: idle-close:"+d)
		br := bufio.NewReader(nc)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.Close {
			t.Fatalf("%s: %v, close announced %v", d, err, resp.Close)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("%s: %v, want EOF", d, err)
		}
	}
}

// TestFaultSplitWrites: the pieces arrive one by one.
func TestFaultSplitWrites(t *testing.T) {
	ts := start(t, Config{LateHead: true})
	nc := ts.raw(`{"prompt":"a","max_tokens":1,"stream":true}`, "X-Mock-Fault: slow-bytes:300us", "Connection: close")
	buf := make([]byte, 4096)
	reads, total := 0, 0
	for {
		n, err := nc.Read(buf)
		total += n
		if err != nil {
			break
		}
		reads++
	}
	if reads < total/20 { // a loaded machine merges many
		t.Errorf("%d reads for %d bytes sent one by one", reads, total)
	}
}

// TestFaultsOfWholeAnswers: without a stream half of the answer comes.
func TestFaultsOfWholeAnswers(t *testing.T) {
	body := `{"prompt":"a","max_tokens":50}`
	for fault, want := range map[string]error{"reset-after": syscall.ECONNRESET, "truncate": io.ErrUnexpectedEOF} {
		ts := start(t, Config{})
		resp, text, err := ts.post(completions, body, "X-Mock-Fault", fault)
		if !errors.Is(err, want) || resp != nil && (int64(len(text)) >= resp.ContentLength || text == "") {
			t.Errorf("%s: %v after %q", fault, err, text)
		}
	}
	for _, fault := range []string{"bad-json", "bad-chunk", "error-event"} {
		ts := start(t, Config{})
		if _, text := ts.mustPost(200, completions, body, "X-Mock-Fault", fault); json.Valid([]byte(text)) {
			t.Errorf("%s: %q", fault, text)
		}
	}
	ts := start(t, Config{})
	if _, text := ts.mustPost(200, completions, body, "X-Mock-Fault", "slow-bytes:1us"); !json.Valid([]byte(text)) {
		t.Errorf("slow-bytes: %q", text)
	}
}

// TestConfiguredFaults: shares follow the probabilities; the header overrides; equal seeds draw equally.
func TestConfiguredFaults(t *testing.T) {
	cfg := Config{Seed: 3, Faults: []Fault{{Kind: FaultStatus, N: 503, Probability: 0.25}, {Kind: FaultStatus, N: 418, Probability: 0.5}}}
	const requests = 2000
	var runs [2][]int
	for i := range runs {
		ts := start(t, cfg)
		for k := range requests {
			resp, _, err := ts.post(completions, `{"prompt":"a","max_tokens":1}`, "X-Request-Id", fmt.Sprint(k))
			if err != nil {
				t.Fatal(err)
			}
			runs[i] = append(runs[i], resp.StatusCode)
		}
		ts.mustPost(200, completions, faultStream, "X-Mock-Fault", "short")
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Error("the same seed drew other faults")
	}
	counts := map[int]int{}
	for _, status := range runs[0] {
		counts[status]++
	}
	if counts[503] < 430 || counts[503] > 570 || counts[418] < 660 || counts[418] > 840 || counts[200] < 660 || counts[200] > 840 {
		t.Errorf("counts %v, want about 500, 750 and 750", counts)
	}
	ts := start(t, Config{NoHeaderFaults: true})
	ts.mustPost(200, completions, faultStream, "X-Mock-Fault", "status:500")
}

// TestTLS: the same over https, faults below the encryption included.
func TestTLS(t *testing.T) {
	cert, pem, err := SelfSigned("")
	if err != nil {
		t.Fatal(err)
	}
	ts := start(t, Config{TLS: TLSConfig(cert), ITL: 2 * time.Millisecond, CacheTokens: -1})
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("the certificate is no PEM")
	}
	ts.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	if a := ts.stream(completions, faultStream); a.tokens != 5 || !a.done || a.finish != "length" {
		t.Errorf("got %+v", a)
	}
	if _, text := ts.mustPost(200, completions, `{"prompt":"a","max_tokens":3}`); !json.Valid([]byte(text)) {
		t.Errorf("got %q", text)
	}
	for fault, want := range map[string]error{"reset-before": syscall.ECONNRESET, "reset-after:2": syscall.ECONNRESET, "truncate:2": io.ErrUnexpectedEOF} {
		if _, text, err := ts.post(completions, faultStream, "X-Mock-Fault", fault); !errors.Is(err, want) {
			t.Errorf("%s: %v after %q", fault, err, text)
		}
	}
	host, _, err := SelfSigned("mock.example")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(host.Certificate[0])
	if err != nil || leaf.VerifyHostname("mock.example") != nil || leaf.VerifyHostname("127.0.0.1") != nil || leaf.VerifyHostname("localhost") != nil {
		t.Errorf("names %v %v, %v", leaf.DNSNames, leaf.IPAddresses, err)
	}
}

// TestGzip: compressed for those who accept it, and each event can be read when it comes.
func TestGzip(t *testing.T) {
	ts := start(t, Config{Gzip: true, TTFT: time.Millisecond, ITL: time.Millisecond})
	for _, body := range []string{faultStream, `{"prompt":"a","max_tokens":500}`} {
		resp, text := ts.mustPost(200, completions, body) // net/http accepts gzip and unpacks it itself
		if !resp.Uncompressed {
			t.Error("not compressed")
		}
		if body == faultStream {
			if a := parseStream(t, text); a.tokens != 5 || !a.done {
				t.Errorf("got %+v", a)
			}
		} else if !json.Valid([]byte(text)) {
			t.Errorf("got %q", text)
		}
	}
	if resp, text := ts.mustPost(200, completions, faultStream, "Accept-Encoding", "identity"); resp.Header.Get("Content-Encoding") != "" || parseStream(t, text).tokens != 5 {
		t.Errorf("identity: %v %q", resp.Header, text)
	}
	resp, err := ts.client.Do(ts.request(completions, faultStream, "X-Mock-Fault", "stall:3"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	for range 6 {
		if _, err := br.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}
