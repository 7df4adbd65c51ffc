package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// chatWork is the work of a file of conversations, with requests.
func chatWork(t testing.TB, file string) *workload.Work {
	path := filepath.Join(t.TempDir(), "chat.jsonl")
	must.Do(t, os.WriteFile(path, []byte(file), 0o600))
	read := must.Have(trace.Open(path, trace.Options{}))(t)
	plan := must.Have(sched.FromTrace(read.ArrivalNS, 1, 0))(t)
	backend := must.Have(api.New("chat", api.Options{Model: "m", Stream: true}))(t)
	a := netip.MustParseAddrPort("127.0.0.1:1")
	w := &workload.Work{Trace: read, Plan: plan, Places: route.RoundRobin(plan.Requests, route.Even([]int{1}))}
	w.Targets = []workload.Target{{URL: "http://one:1", Host: "one:1", Path: backend.Path(), Endpoints: []netip.AddrPort{a}}}
	w.Prebuilt = workloadtest.Build(t, &workload.Builder{Backend: backend, RunID: "a"}, w)
	return w
}

type chatMessage struct{ Role, Content string }

// chatFile has conversations of some turns; every other one has recorded answers.
func chatFile(conversations, turns, bytesEach int) string {
	var file strings.Builder
	for c := range conversations {
		var all []string
		for k := range turns {
			all = append(all, fmt.Sprintf(`{"text":"c%dt%d %s","timestamp":%d}`, c, k, strings.Repeat("x", bytesEach), k))
			if c%2 == 0 {
				all = append(all, fmt.Sprintf(`{"role":"assistant","text":"recorded %d %d"}`, c, k))
			}
		}
		fmt.Fprintf(&file, `{"session_id":"%d","turns":[%s]}`+"\n", c, strings.Join(all, ","))
	}
	return file.String()
}

// messagesOf reads a request as a server does.
func messagesOf(t testing.TB, request []byte) (messages []chatMessage) {
	r := bufio.NewReader(bytes.NewReader(request))
	req, err := http.ReadRequest(r)
	must.Do(t, err, request)
	text, err := io.ReadAll(req.Body)
	var body struct{ Messages []chatMessage }
	if err != nil || r.Buffered() > 0 || int64(len(text)) != req.ContentLength || json.Unmarshal(text, &body) != nil {
		t.Fatalf("%v, %d bytes of %d, %d left: %q", err, len(text), req.ContentLength, r.Buffered(), text)
	}
	return body.Messages
}

// TestHistoryStorm sends and ends the turns of many conversations from as many goroutines, some turns before the one
// that they go on from has ended. Whatever is sent has at each place the live answer or the file's, and does not change
// while it is sent. Nothing is kept in the end.
func TestHistoryStorm(t *testing.T) {
	const conversations, turns = 120, 6
	w := chatWork(t, chatFile(conversations, turns, 20))
	h, err := New(w)
	if err != nil || h.Turns() != conversations*(turns-1) {
		t.Fatalf("%d turns, %v", h.Turns(), err)
	}
	before := w.Trace.TurnsBefore(w.Requests())
	ended := make([]chan struct{}, w.Requests())
	for i := range ended {
		ended[i] = make(chan struct{})
	}
	clock := sched.NewMonotonic()
	clock.Start(0)
	var all sync.WaitGroup
	var mu sync.Mutex
	lives := 0
	for i := range int32(w.Requests()) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			waited := before[i] != trace.NoTurn && rng.IntN(4) > 0
			if waited {
				<-ended[before[i]]
			}
			request := h.Bytes(i)
			live := request != nil
			if !live {
				request = w.Prebuilt.At(int(i))
			}
			sent := bytes.Clone(request)
			n := checkStormy(t, w, i, messagesOf(t, sent))
			mu.Lock()
			lives += n
			mu.Unlock()
			for range rng.IntN(20) {
				runtime.Gosched()
			}
			again := h.Bytes(i)
			if (again != nil) != live || !bytes.Equal(request, sent) || live && !bytes.Equal(again, sent) {
				t.Errorf("request %d is another one when it is sent again", i)
			}
			if waited && !live && h.turns[before[i]].state.Load() == answered {
				t.Errorf("request %d left as recorded, though request %d had been answered before", i, before[i])
			}
			rec := record.Record{Outcome: record.OK}
			if i%7 == 3 {
				rec.Outcome = record.Reset
			}
			if i%7 != 5 { // the others are never answered: no connection, or not sent at all
				h.Answered(i, &rec, &Answer{Wanted: true, Text: fmt.Appendf(nil, `live \"%d\"`, i)})
			}
			h.Ended(clock, i)
			close(ended[i])
		})
	}
	all.Wait()
	for i := range h.turns {
		want := answered
		if i%7 == 3 || i%7 == 5 || !h.Follows(int32(i)) {
			want = failed
		}
		must.Equal(t, h.turns[i].state.Load(), want, "request %d: state", i)
		if turn := &h.turns[i]; turn.answer.Load() != nil || turn.bytes != nil || turn.needed.Load() != 0 {
			t.Fatalf("request %d: an answer %v, a request of %d bytes, needed by %d", i, turn.answer.Load() != nil, len(turn.bytes), turn.needed.Load())
		}
	}
	if lives < w.Requests()/2 {
		t.Errorf("%d live answers", lives)
	}
}

// checkStormy checks what was sent for request i and returns how many live answers it has.
func checkStormy(t *testing.T, w *workload.Work, i int32, sent []chatMessage) (lives int) {
	recorded := messagesOf(t, w.Prebuilt.At(int(i)))
	var want []chatMessage
	chain := []int32{}
	before := w.Trace.TurnsBefore(w.Requests())
	for j := before[i]; j != trace.NoTurn; j = before[j] {
		chain = append(chain, j)
	}
	slices.Reverse(chain)
	for k, m := range recorded {
		if m.Role == "assistant" {
			continue
		}
		want = append(want, m)
		if k == len(recorded)-1 {
			break
		}
		live := chatMessage{"assistant", fmt.Sprintf(`live "%d"`, chain[0])}
		chain = chain[1:]
		if len(sent) > len(want) && sent[len(want)] == live {
			want = append(want, live)
			lives++
		} else if recorded[k+1].Role == "assistant" {
			want = append(want, recorded[k+1])
		}
	}
	if !reflect.DeepEqual(sent, want) {
		t.Errorf("request %d\ngot  %v\nwant %v", i, sent, want)
	}
	return lives
}

// TestHistoryRefused: work of which no request carries an answer, and why.
func TestHistoryRefused(t *testing.T) {
	const call = `{"timestamp":0,"session_id":"s","messages":[{"role":"user","content":"a"}]}
{"timestamp":1,"session_id":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"f()"},{"role":"tool","content":"1"}]}
`
	for file, why := range map[string]string{
		`{"turns":[{"text":"a","timestamp":0}]}`: "none follows another",
		`{"session_id":"s","timestamp":0,"text":"a"}` + "\n" + `{"session_id":"s","timestamp":1,"text":"ab"}`:                              "the messages of none begin with those",
		`{"timestamp":0,"session_id":"s","payload":{"messages":[]}}` + "\n" + `{"timestamp":1,"session_id":"s","payload":{"messages":[]}}`: "whole bodies are sent as they stand",
		call: "calls of tools",
	} {
		w := chatWork(t, file)
		if _, err := New(w); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", file, err, why)
		}
	}
}

// TestImageAllocatesNothing: the choice of what is sent is made without an allocation.
func TestImageAllocatesNothing(t *testing.T) {
	w := chatWork(t, chatFile(3, 3, 20))
	h := must.Have(New(w))(t)
	expect.Equal(t, testing.AllocsPerRun(50, func() {
		for i := range int32(w.Requests()) {
			h.Bytes(i)
		}
	}), 0, "allocations")
}

// BenchmarkHistoryMake makes the bytes of the last of 10 turns.
func BenchmarkHistoryMake(b *testing.B) {
	for _, size := range []int{100, 2000, 20000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			w := chatWork(b, chatFile(1, 10, size))
			h := must.Have(New(w))(b)
			clock := sched.NewMonotonic()
			rec := record.Record{Outcome: record.OK}
			last := int32(w.Requests() - 1)
			for i := range last {
				h.Answered(i, &rec, &Answer{Wanted: true, Text: bytes.Repeat([]byte("y"), size)})
			}
			b.ReportAllocs()
			for b.Loop() {
				h.make(clock, last)
				t := &h.turns[last]
				must.Equal(b, t.live, 9)
				t.form.Store(formOpen)
				h.buffers.put(t.bytes)
			}
			b.SetBytes(int64(len(h.turns[last].bytes)))
		})
	}
}

func TestBufferPool(t *testing.T) {
	var p bufferPool
	p.warm(5000, 2) // 8192 each
	for _, c := range []struct{ n, room int }{{1, 8192}, {8192, 8192}, {0, 1}, {1, 1}, {2, 2}, {3, 4}, {4097, 8192}, {8193, 16384}} {
		if b := p.get(c.n); len(b) != 0 || cap(b) != c.room {
			t.Errorf("room for %d bytes: %d of %d, want %d", c.n, len(b), cap(b), c.room)
		}
	}
	p.put(nil)
	p.put(make([]byte, 3, 100)) // of use for 64
	expect.Equal(t, cap(p.get(65)), 128, "room for 65 bytes")
	if b := p.get(60); cap(b) != 100 || len(b) != 0 {
		t.Errorf("room for 60 bytes: %d of %d", len(b), cap(b))
	}
	size := 0
	if n := testing.AllocsPerRun(100, func() {
		b, scratch := p.get(3000), p.get(200)
		size += cap(b) + cap(scratch)
		p.put(b)
		p.put(scratch)
	}); n != 0 || size == 0 {
		t.Errorf("%v allocations in the steady state", n)
	}
}
