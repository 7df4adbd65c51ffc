package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// startMockCommand runs the command in this process and returns the URL that it prints, and how to end it.
func startMockCommand(t *testing.T, stdin io.Reader, args ...string) (url string, stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	done := make(chan error, 1)
	cmd := newMockCommand()
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(in)
	go func() {
		err := cmd.ExecuteContext(ctx)
		in.CloseWithError(err)
		done <- err
	}()
	t.Cleanup(cancel)
	line, err := bufio.NewReader(out).ReadString('\n')
	must.Do(t, err, "mock %v", args)
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Fatalf("mock %v printed %q", args, line)
	}
	return url, cancel, done
}

// waitMockCommand returns how the command ended.
func waitMockCommand(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("the mock does not end")
		return nil
	}
}

// askMockCommand sends one completion request.
func askMockCommand(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	resp := must.Have(client.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a b","max_tokens":2,"stream":true}`)))(t)
	defer resp.Body.Close()
	body := must.Have(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(body)
}

func TestMockCommand(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log.jsonl")
	url, stop, ended := startMockCommand(t, strings.NewReader(""), "--ttft", "1ms", "--itl", "1ms", "--log", log, "--fault", "status:503@0", "--template-tokens", "14, 5")
	if status, body := askMockCommand(t, http.DefaultClient, url); status != 200 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("%d %q", status, body)
	}
	stop()
	expect.Equal(t, waitMockCommand(t, ended), nil)
	got, err := os.ReadFile(log)
	if err != nil || bytes.Count(got, []byte("\n")) != 1 || !bytes.Contains(got, []byte(`"completion_tokens":2`)) {
		t.Errorf("log %q, %v", got, err)
	}
}

func TestMockCommandTLS(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	url, _, _ := startMockCommand(t, strings.NewReader(""), "--tls-self-signed", "--tls-ca", ca)
	pem, err := os.ReadFile(ca)
	if err != nil || !strings.HasPrefix(url, "https://") {
		t.Fatal(url, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	if status, _ := askMockCommand(t, client, url); status != 200 {
		t.Errorf("status %d", status)
	}
}

// TestMockDiesWithParent: the end of a standard input that is a pipe ends the server.
func TestMockDiesWithParent(t *testing.T) {
	stdin, parent, err := os.Pipe()
	must.Do(t, err)
	defer stdin.Close()
	url, _, ended := startMockCommand(t, stdin, "--die-with-parent")
	if status, _ := askMockCommand(t, http.DefaultClient, url); status != 200 {
		t.Errorf("status %d", status)
	}
	parent.Close()
	expect.Equal(t, waitMockCommand(t, ended), nil)
}

// TestMockWithoutAPipe: the end of any other standard input means nothing.
func TestMockWithoutAPipe(t *testing.T) {
	stdin := must.Have(os.Open(os.DevNull))(t)
	defer stdin.Close()
	url, stop, ended := startMockCommand(t, stdin, "--die-with-parent")
	if status, _ := askMockCommand(t, http.DefaultClient, url); status != 200 {
		t.Errorf("status %d", status)
	}
	stop()
	expect.Equal(t, waitMockCommand(t, ended), nil)
}

// TestMockInstances: servers of their own, each with its log, and a file that the replay reads.
func TestMockInstances(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "targets")
	url, stop, ended := startMockCommand(t, strings.NewReader(""), "--instances", "3", "--targets-file", file, "--log", filepath.Join(dir, "log-{instance}"),
		"--header", "x-instance: m{instance}", "--body-field", "nvext.worker_id={instance}")
	o := options{targetsFile: file}
	if err := o.readTargets(); err != nil || len(o.URLs) != 3 || o.URLs[0] != url {
		t.Fatalf("targets %v, %v; the first is %s", o.URLs, err, url)
	}
	for i, url := range o.URLs {
		resp := must.Have(http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":1}`)))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := fmt.Sprintf(`"nvext":{"worker_id":%d}`, i); err != nil || resp.Header.Get("X-Instance") != fmt.Sprint("m", i) || !strings.Contains(string(body), want) {
			t.Errorf("%d: %v %s %v", i, resp.Header, body, err)
		}
	}
	stop()
	expect.Equal(t, waitMockCommand(t, ended), nil)
	for i := range 3 {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("log-", i)))
		if err != nil || bytes.Count(got, []byte("\n")) != 1 {
			t.Errorf("log %d: %q, %v", i, got, err)
		}
	}
}

// TestMockListenAt: servers listen at the port given and those after it.
func TestMockListenAt(t *testing.T) {
	for listen, want := range map[string]string{"127.0.0.1:65535": "127.0.0.1:65536", "nowhere:http:x": "nowhere:http:x"} {
		o := mockOptions{listen: listen}
		expect.Refused(o.listenAt(1))(t, "--listen "+want, listen)
	}
}
