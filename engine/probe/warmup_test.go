package probe

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
)

// TestWarmUpSendsTheFirstSizesAndSharesNothing looks at what a server gets.
func TestWarmUpSendsTheFirstSizesAndSharesNothing(t *testing.T) {
	w := workloadtest.Work(t, 6)
	builder := workloadtest.Builder(t, "", "00000000", 0)
	var mu sync.Mutex
	var bodies []string
	inFlight, peak, refuse := 0, 0, ""
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		mu.Lock()
		bodies = append(bodies, string(body))
		inFlight++
		peak = max(peak, inFlight)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		inFlight--
		mu.Unlock()
		if refuse != "" {
			http.Error(out, refuse, http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(out, `{"choices":[{"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	defer s.Close()
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())
	for i := range w.Targets {
		w.Targets[i].URL, w.Targets[i].Endpoints = s.URL, []netip.AddrPort{addr}
	}
	b := &Prober{Targets: w.Targets, ConnectTimeout: time.Minute, Timeout: time.Minute, Backend: func(string) (api.Backend, error) { return builder.Backend, nil }}
	must.Do(t, b.WarmUp(context.Background(), w, builder.Source, 15, 3, ""))
	if len(bodies) != 15 || peak > 3 {
		t.Fatalf("%d requests, up to %d at once; want 15 and at most 3", len(bodies), peak)
	}
	wanted, firsts := map[int]int{}, map[string]bool{}
	for i := range 15 {
		wanted[w.PromptTokens(i%6)]++
	}
	for i := range w.Requests() {
		ids := string(builder.Source.Append(nil, workloadtest.Spec(w, i)))
		firsts[strings.SplitN(ids, ",", 9)[0]+","+strings.SplitN(ids, ",", 9)[min(1, strings.Count(ids, ","))]] = true
	}
	for _, body := range bodies {
		ids := body[strings.Index(body, `"prompt":[`)+len(`"prompt":[`):]
		ids = ids[:strings.IndexByte(ids, ']')]
		wanted[strings.Count(ids, ",")+1]--
		first := strings.SplitN(ids, ",", 9)
		key := first[0] + "," + first[min(1, len(first)-1)]
		if firsts[key] {
			t.Errorf("a prompt begins with %s, as another does", key)
		}
		firsts[key] = true
	}
	for tokens, missing := range wanted {
		expect.Equal(t, missing, 0, "prompts of %d tokens are missing", tokens)
	}
	refuse = "no room"
	if err := b.WarmUp(context.Background(), w, builder.Source, 4, 0, ""); err == nil || !strings.Contains(err.Error(), "warm-up request") || !strings.Contains(err.Error(), "no room") {
		t.Errorf("error %v, want the server's refusal", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	expect.Error(t, b.WarmUp(ended, w, builder.Source, 4, 0, ""), "", "an interrupted warm-up is no error")
}
