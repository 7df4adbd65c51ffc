package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// Limits of one request to a server, besides its time.
const (
	maxAnswerBytes = 8 << 20         // of a body, also uncompressed; vLLM's /metrics with eight engines is 0.6 MB long
	maxHeadBytes   = 64 << 10        // of a response head
	waitingAfter   = 2 * time.Second // then Prober.Waiting is called
	mostAttempts   = 3               // if the server ends the connection before its answer
)

// server is one address of a target.
type server struct {
	*workload.Target
	addr netip.AddrPort
}

// serversOf are all addresses of targets.
func serversOf(targets []workload.Target) (all []server) {
	for i := range targets {
		for _, addr := range targets[i].Endpoints {
			all = append(all, server{&targets[i], addr})
		}
	}
	return all
}

// firstOf is the first address of a target, and firsts are those of all.
func firstOf(t *workload.Target) server { return server{t, t.Endpoints[0]} }

func (b *Prober) firsts() (all []server) {
	for i := range b.Targets {
		all = append(all, firstOf(&b.Targets[i]))
	}
	return all
}

// ask makes one exchange with one address. It ends with ctx, after b.Timeout, or when the answer is too long. Redirects
// are answers like any other.
func (b *Prober) ask(
	ctx context.Context, at server, method, url string, body []byte,
) (status int, answer []byte, err error) {
	asking, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	defer b.waiting(method+" "+withoutQuery(url), b.Timeout, "--timeout")()
	client := b.client(asking, at)
	client.MaxIdemponentCallAttempts = 1
	req := fasthttp.AcquireRequest()
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(url)
	req.Header.SetMethod(method)
	req.Header.Set("Connection", "close")
	for _, h := range b.Headers {
		req.Header.Set(h.Name, h.Value)
	}
	req.SetBody(body)
	for range mostAttempts {
		err = client.Do(req, resp)
		cut := errors.Is(err, fasthttp.ErrConnectionClosed) || errors.Is(err, io.ErrUnexpectedEOF) ||
			wire.IsReset(err)
		if !cut {
			break
		}
	}
	if err == nil {
		answer, err = resp.BodyUncompressedWithLimit(maxAnswerBytes)
	}
	status = resp.StatusCode()
	var head *fasthttp.ErrSmallBuffer
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil && asking.Err() != nil:
		err = fmt.Errorf("no whole answer within %s (--timeout)", format.Span(b.Timeout.Seconds()))
	case !at.TLS && wantsTLS(status, answer, err):
		err = errors.New("the server speaks https; write https:// in --url")
	case !at.TLS && errors.Is(err, fasthttp.ErrConnectionClosed):
		err = errors.New("the server ends the connection without an answer; if it speaks https, " +
			"write https:// in --url")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		err = fmt.Errorf("the answer is longer than %d MiB", maxAnswerBytes>>20)
	case errors.As(err, &head):
		err = fmt.Errorf("the answer's head is longer than %d KiB", maxHeadBytes>>10)
	case err == nil:
		return status, bytes.Clone(answer), nil
	default:
		err = b.Secrets.Error(err)
	}
	return 0, nil, err
}

// wantsTLS reports whether a server says in answer to plain http that it speaks https. It sends an alert of TLS (RFC
// 8446, section 6), or, as those of Go, nginx and Apache do, a 400 in words.
func wantsTLS(status int, answer []byte, err error) bool {
	if err != nil {
		return strings.Contains(err.Error(), `"\x15\x03`)
	}
	words := bytes.ToUpper(answer)
	return status == fasthttp.StatusBadRequest && bytes.Contains(words, []byte("HTTPS"))
}

// waiting calls Waiting with what is waited for, and for how long at most, unless answered is called within
// waitingAfter.
func (b *Prober) waiting(what string, limit time.Duration, flag string) (answered func() bool) {
	if b.Waiting == nil {
		return func() bool { return true }
	}
	after := b.after
	if after == nil {
		after = func(d time.Duration, f func()) func() bool {
			return time.AfterFunc(d, f).Stop
		}
	}
	what += ", for " + format.Span(limit.Seconds()) + " at most (" + flag + ")"
	return after(waitingAfter, func() { b.Waiting(what) })
}

// client talks to one address, whose connections end with ctx.
func (b *Prober) client(ctx context.Context, at server) *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr:                at.addr.String(),
		IsTLS:               at.TLS,
		MaxIdleConnDuration: time.Second,
		MaxResponseBodySize: maxAnswerBytes,
		ReadBufferSize:      maxHeadBytes,
		Dial:                func(string) (net.Conn, error) { return b.dial(ctx, at) },
	}
}

// dial connects within b.ConnectTimeout, TLS included.
func (b *Prober) dial(ctx context.Context, at server) (conn net.Conn, err error) {
	connecting, cancel := context.WithTimeout(ctx, b.ConnectTimeout)
	defer cancel()
	defer func() {
		var late net.Error
		if ctx.Err() == nil && errors.As(err, &late) && late.Timeout() {
			err = fmt.Errorf("no connection within %s (--connect-timeout)", format.Span(b.ConnectTimeout.Seconds()))
		}
	}()
	plain, err := new(net.Dialer).DialContext(connecting, "tcp", at.addr.String())
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = plain.Close() }) // not that of TLS, which would first write an alert
	if !at.TLS {
		return plain, nil
	}
	cfg := b.TLS.Clone()
	cfg.ServerName = cmp.Or(cfg.ServerName, at.Name)
	secure := tls.Client(plain, cfg)
	if err := secure.HandshakeContext(connecting); err != nil {
		_ = plain.Close()
		var clear tls.RecordHeaderError
		var broken *net.OpError
		cut := errors.As(err, &broken) && broken.Op == "read"
		if errors.As(err, &clear) {
			err = fmt.Errorf("the server does not speak https; write http:// in --url (%w)", err)
		} else if cut || errors.Is(err, io.EOF) {
			err = errors.New("the server ends the connection in the TLS handshake; " +
				"if it speaks http, write http:// in --url")
		}
		return nil, err
	}
	return secure, nil
}

// LookUp is a target for each address that a name of the form HOST:PORT has, in their order.
func LookUp(ctx context.Context, name string) (urls []string, err error) {
	return lookUp(ctx, name, net.DefaultResolver.LookupNetIP)
}

func lookUp(
	ctx context.Context, name string, resolve func(ctx context.Context, network, host string) ([]netip.Addr, error),
) (urls []string, err error) {
	host, port, err := net.SplitHostPort(name)
	if number, wrong := strconv.ParseUint(port, 10, 16); err != nil || host == "" || wrong != nil || number == 0 {
		return nil, fmt.Errorf("dns:%s: want dns:HOST:PORT, such as dns:llm.default.svc:8000", name)
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	addrs, err := resolve(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("cannot resolve %s: %w", host, err)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, a := range slices.Compact(addrs) {
		urls = append(urls, "http://"+net.JoinHostPort(a.String(), port))
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	return urls, nil
}

// lookUpTimeout bounds a look-up during a run.
const lookUpTimeout = 5 * time.Second

// Resolve looks up every address of every target's name. The addresses keep the resolver's families and are sorted, so
// that two runs spread their requests alike.
func Resolve(ctx context.Context, targets []workload.Target) error {
	for i := range targets {
		t := &targets[i]
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", t.Name)
		if err != nil {
			return fmt.Errorf("target %s: cannot resolve %s: %w", t.URL, t.Name, err)
		}
		t.Endpoints = t.Endpoints[:0]
		for _, a := range addrs {
			at := netip.AddrPortFrom(a.Unmap(), t.Port)
			t.Endpoints = append(t.Endpoints, at)
		}
		slices.SortFunc(t.Endpoints, netip.AddrPort.Compare)
		t.Endpoints = slices.Compact(t.Endpoints)
	}
	return nil
}
