package workload_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// TestBuiltBytesAreRequests reads every request back with net/http and encoding/json.
func TestBuiltBytesAreRequests(t *testing.T) {
	w := workloadtest.Work(t, 300)
	copy(w.Trace.InputTokens, []int32{1, 2, 3, 4, 5}) // some not longer than the overhead
	r := workloadtest.Builder(t, "", "run1", 7)
	m := workloadtest.Build(t, r, w)
	largest := 0
	for i := range w.Requests() {
		sent := m.At(i)
		largest = max(largest, len(sent))
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
		must.Do(t, err, "request %d", i)
		raw, err := io.ReadAll(req.Body)
		if err != nil || int64(len(raw)) != req.ContentLength || !bytes.HasSuffix(sent, raw) {
			t.Fatalf("request %d: %d body bytes, Content-Length %d, %v", i, len(raw), req.ContentLength, err)
		}
		target := w.Targets[i%2]
		if req.Host != target.Host || req.URL.Path != target.Path || req.Method != "POST" || req.Header.Get("Authorization") != "Bearer k" {
			t.Fatalf("request %d: %s %s to %s", i, req.Method, req.URL, req.Host)
		}
		must.Equal(t, req.Header.Get("X-Request-Id"), fmt.Sprintf("run1-%09d", i), "request %d: request id", i)
		var body struct {
			Prompt    []int
			MaxTokens int `json:"max_tokens"`
		}
		must.Do(t, json.Unmarshal(raw, &body), "request %d", i)
		input := int(w.Trace.InputTokens[i])
		must.Equal(t, w.SurplusTokens(i), len(body.Prompt)+3-input, "request %d tokens more than recorded", i)
		if want := max(1, input-w.Overhead.Tokens()); len(body.Prompt) != want || body.MaxTokens != int(w.Trace.OutputTokens[i]) {
			t.Fatalf("request %d: %d prompt tokens and max_tokens %d; want %d and %d", i, len(body.Prompt), body.MaxTokens, want, w.Trace.OutputTokens[i])
		}
	}
	expect.Equal(t, m.Largest(), largest, "largest")
}

// TestFingerprint recomputes it from its definition, one row after the other.
func TestFingerprint(t *testing.T) {
	w := workloadtest.Work(t, 100)
	m := workloadtest.Build(t, workloadtest.Builder(t, "", "a", 7), w)
	all := sha256.New()
	for i := range w.Requests() {
		_, body, _ := strings.Cut(string(m.At(i)), "\r\n\r\n")
		row := sha256.New()
		for _, part := range []string{"POST", "/v1/completions", "", body} {
			_ = binary.Write(row, binary.LittleEndian, uint64(len(part)))
			_, _ = io.WriteString(row, part)
		}
		_ = binary.Write(all, binary.LittleEndian, w.Plan.ReleaseNS[i])
		all.Write(row.Sum(nil))
	}
	expect.Equal(t, m.Fingerprint(), fmt.Sprintf("sha256:%x", all.Sum(nil)), "fingerprint")
}

func TestFingerprintIsThatOfTheWorkload(t *testing.T) {
	w := workloadtest.Work(t, 50)
	print := func(salt, runID string, seed uint64) string {
		return workloadtest.Build(t, workloadtest.Builder(t, salt, runID, seed), w).Fingerprint()
	}
	expect.Equal(t, print("", "a", 7), print("", "b", 7), "another run id changed the fingerprint")
	expect.Equal(t, print("salt-1", "a", 7), print("salt-2", "a", 7), "another salt changed the fingerprint")
	if print("", "a", 7) == print("", "a", 8) {
		t.Error("another seed did not change the fingerprint")
	}
	keyed := *w
	keyed.Targets = append([]workload.Target(nil), w.Targets...)
	keyed.Targets[0].Query = "?key=k"
	expect.Equal(t, workloadtest.Build(t, workloadtest.Builder(t, "", "a", 7), &keyed).Fingerprint(), print("", "a", 7), "a credential in the URL changed the fingerprint")
	slow := *w
	slow.Plan, _ = sched.FromTrace(w.Trace.ArrivalNS, 0.5, 0)
	if workloadtest.Build(t, workloadtest.Builder(t, "", "a", 7), w).Fingerprint() == workloadtest.Build(t, workloadtest.Builder(t, "", "a", 7), &slow).Fingerprint() {
		t.Error("another pace did not change the fingerprint")
	}
}

func TestFillStopsWhenToldTo(t *testing.T) {
	w := workloadtest.Work(t, 500)
	r := workloadtest.Builder(t, "", "a", 1)
	m := must.Have(r.Layout(context.Background(), w))(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	expect.Equal(t, m.Fill(ctx, new(atomic.Int64)), context.Canceled, "error")
}

func BenchmarkFill(b *testing.B) {
	w := workloadtest.Work(b, 2000)
	r := workloadtest.Builder(b, "", "a", 1)
	m, err := r.Layout(context.Background(), w)
	must.Do(b, err)
	tokens := 0
	for _, n := range w.Trace.InputTokens {
		tokens += int(n)
	}
	b.SetBytes(m.Bytes())
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, m.Fill(context.Background(), new(atomic.Int64)))
		must.Do(b, m.Free())
	}
	b.ReportMetric(float64(b.N*tokens)/b.Elapsed().Seconds(), "tokens/s")
}

// TestVerify: each of the chosen prompts is counted once, exactly as it stands in its body. The error names the first
// row with a wrong count.
func TestVerify(t *testing.T) {
	w := workloadtest.Work(t, 200)
	r := workloadtest.Builder(t, "", "a", 7)
	w.Prebuilt = workloadtest.Build(t, r, w)
	count := func(prompt []byte) (int, error) { return 1 + bytes.Count(prompt, []byte{','}), nil }
	for n, want := range map[int]int{0: 0, 1: 1, 64: 64, 199: 199, 200: 200, 1000: 200, -1: 200} {
		var seen atomic.Int64
		got, err := w.Prebuilt.Verify(context.Background(), n, func(prompt []byte) (int, error) {
			seen.Add(1)
			return count(prompt)
		})
		if got != want || seen.Load() != int64(want) || err != nil {
			t.Errorf("n = %d: %d prompts, %d seen, %v; want %d", n, got, seen.Load(), err, want)
		}
	}
	w.Trace.Row[120], w.Trace.Row[3] = 3, 120 // in the file's order, row 3 is the first
	var bad [2][]byte
	for k, i := range []int{3, 120} {
		bad[k] = r.Source.Append(nil, workloadtest.Spec(w, i))
	}
	_, err := w.Prebuilt.Verify(context.Background(), -1, func(prompt []byte) (int, error) {
		n, _ := count(prompt)
		if bytes.Equal(prompt, bad[0]) || bytes.Equal(prompt, bad[1]) {
			n++
		}
		return n, nil
	})
	wrong := (*workload.PromptError)(nil)
	if !errors.As(err, &wrong) || wrong.Row != 3 || wrong.Want != w.PromptTokens(120) || wrong.Got != wrong.Want+1 {
		t.Errorf("error %+v, %v; want row 3", wrong, err)
	}
}
