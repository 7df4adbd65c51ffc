package main

import (
	gobytes "bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"
)

// rivalConnections is more than any load has live at once.
const rivalConnections = 1 << 16

// fasthttpClient streams answers as fasthttp offers it.
func fasthttpClient(url string) (client, error) {
	host, _, ok := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	if !ok {
		return nil, fmt.Errorf("URL %q has no path", url)
	}
	c := &fasthttp.HostClient{Addr: host, MaxConns: rivalConnections, StreamResponseBody: true}
	return func(body []byte, requestID string) (io.ReadCloser, error) {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		req.SetRequestURI(url)
		req.Header.SetMethod(fasthttp.MethodPost)
		req.Header.SetContentType("application/json")
		req.Header.Set("X-Request-Id", requestID)
		req.SetBodyRaw(body)
		err := c.Do(req, resp)
		fasthttp.ReleaseRequest(req)
		s := &fasthttpStream{Reader: resp.BodyStream(), resp: resp}
		if err == nil && resp.StatusCode() != fasthttp.StatusOK {
			err = fmt.Errorf("status %d", resp.StatusCode())
		}
		if err == nil && s.Reader == nil {
			s.Reader = gobytes.NewReader(resp.Body())
		}
		if err != nil {
			_ = s.Close()
			return nil, err
		}
		return s, nil
	}, nil
}

type fasthttpStream struct {
	io.Reader
	resp *fasthttp.Response
}

func (s *fasthttpStream) Close() error {
	err := s.resp.CloseBodyStream()
	fasthttp.ReleaseResponse(s.resp)
	return err
}

// netHTTPClient is the standard library's, with room for every connection.
func netHTTPClient(url string) client {
	c := &http.Client{Transport: &http.Transport{MaxIdleConns: rivalConnections, MaxIdleConnsPerHost: rivalConnections, DisableCompression: true}}
	return func(body []byte, requestID string) (io.ReadCloser, error) {
		req, err := http.NewRequest(http.MethodPost, url, gobytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Request-Id", requestID)
		resp, err := c.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			_ = resp.Body.Close()
			return nil, fmt.Errorf("status %d", resp.StatusCode)
		}
		return resp.Body, nil
	}
}
