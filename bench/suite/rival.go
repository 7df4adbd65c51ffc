package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/sched"
	"github.com/valyala/fasthttp"
)

// rivalCommand sends a trace as most load generators do: time.Sleep until the instant, then a goroutine of its own,
// then fasthttp.
const rivalCommand = "rival"

const rivalName = "time.Sleep + fasthttp"

// rival runs it in a process of its own.
func (l *lab) rival(url, trace string, args ...string) (*outcome, error) {
	return l.outcome(func(dir string) error {
		command := []string{l.self, rivalCommand, "--url", url, "--trace", trace, "--output", dir}
		_, _, err := l.finish(append(command, args...)...)
		return err
	})
}

func rivalMain(args []string) error {
	f := flag.NewFlagSet(rivalCommand, flag.ContinueOnError)
	url := f.String("url", "", "of the mock")
	trace := f.String("trace", "", "trace to send")
	dir := f.String("output", "", "directory for requests.jsonl and summary.json")
	chunkLog := f.String("chunk-log", "", "as fastreplay's")
	if err := f.Parse(args); err != nil {
		return err
	}
	w, err := openWorkload(*trace, true)
	if err != nil {
		return err
	}
	clock := sched.NewMonotonic()
	lines := sendAll(w, *url, clock)
	return errors.Join(writeRival(*dir, lines, clock), writeChunks(*chunkLog, lines))
}

// rivalLead is what is left to the start, as in fastreplay.
const rivalLead = 50 * time.Millisecond

// line is what a rival measures of one request, and its chunks that the server stamped.
type line struct {
	record.Record
	stamped []chunk
}

// rivalConnections is more than any load has live at once.
const rivalConnections = 1 << 16

// sendAll releases every body at its instant and returns when all have been answered. url is the server's.
func sendAll(w *workload, url string, clock *sched.Monotonic) []line {
	client := &fasthttp.HostClient{
		Addr:               strings.TrimPrefix(url, "http://"),
		MaxConns:           rivalConnections,
		StreamResponseBody: true,
	}
	lines := make([]line, len(w.bodies))
	var all sync.WaitGroup
	clock.Start(rivalLead)
	for i, at := range w.releaseNS {
		time.Sleep(time.Duration(at - clock.Now()))
		all.Go(func() { sendOne(&lines[i], i, at, url+w.path, w.bodies[i], client, clock) })
	}
	all.Wait()
	return lines
}

func sendOne(l *line, i int, at int64, url string, body []byte, client *fasthttp.HostClient, clock *sched.Monotonic) {
	l.Clear()
	l.Row = int64(i)
	l.RequestID = "rival-" + strconv.Itoa(i)
	l.PlannedNS = at
	l.SentNS = clock.Now()
	req := fasthttp.AcquireRequest()
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(url)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	req.Header.Set("X-Request-Id", l.RequestID)
	req.SetBodyRaw(body)
	err := client.Do(req, resp)
	if err == nil && resp.StatusCode() != fasthttp.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode())
	}
	if err == nil {
		err = errors.Join(readStream(resp.BodyStream(), l, clock), resp.CloseBodyStream())
	}
	l.Outcome = record.OK
	if err != nil {
		l.Outcome = record.BadResponse
		l.Error = err.Error()
	}
}

// readStream stamps each token chunk, and notes the server's own stamp in it if there is one.
func readStream(stream io.Reader, l *line, clock *sched.Monotonic) error {
	r := bufio.NewReader(stream)
	for {
		text, err := r.ReadSlice('\n')
		now := clock.Now()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte(`"choices":[{`)) {
			continue // the usage, the end, an empty line
		}
		sent := sentIn(text)
		if sent > 0 {
			l.stamped = append(l.stamped, chunk{
				number:    l.Chunks,
				instantNS: now,
				readNS:    now,
				sentNS:    sent,
			})
		}
		l.LastTokenNS = now
		l.Chunks++
	}
}

// sentIn is the server's stamp in a chunk; 0 = none.
func sentIn(text []byte) int64 {
	_, after, _ := bytes.Cut(text, []byte(`"sent_ns":`))
	digits, _, _ := bytes.Cut(after, []byte("}"))
	n, _ := strconv.ParseInt(string(digits), 10, 64)
	return n
}

func writeRival(dir string, lines []line, clock *sched.Monotonic) error {
	var s metrics.Summary
	s.Run.MonotonicStartNS = clock.MonotonicStartNS()
	s.Requests.Planned = int64(len(lines))
	var out []byte
	for i := range lines {
		if lines[i].Outcome == record.OK && lines[i].Chunks > 0 {
			s.Requests.OK++
		}
		out = lines[i].AppendJSON(out)
	}
	return errors.Join(
		os.Mkdir(dir, 0o755),
		report.WriteSummary(dir, &s),
		os.WriteFile(filepath.Join(dir, report.RequestsName), out, 0o644),
	)
}

// writeChunks writes the log of chunks; without a path, nothing.
func writeChunks(path string, lines []line) error {
	if path == "" {
		return nil
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, chunkHead)
	for row := range lines {
		for _, c := range lines[row].stamped {
			fmt.Fprintf(&out, "%d,%d,%d,%d,%d\n", row, c.number, c.instantNS, c.readNS, c.sentNS)
		}
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// workload is what fastreplay sends for a trace with --model mock and no other flag about requests, for rivals to send.
type workload struct {
	path      string
	releaseNS []int64
	bodies    [][]byte
}

func openWorkload(path string, stream bool) (*workload, error) {
	t, err := trace.Open(path, trace.Options{})
	if err != nil {
		return nil, err
	}
	source, err := prompt.NewTokenIDs(0, prompt.BuiltInIDs())
	if err != nil {
		return nil, err
	}
	backend, err := api.New(
		"completions",
		api.Options{Model: "mock", Stream: stream, ForceOutput: true, TokenIDs: true},
	)
	if err != nil {
		return nil, err
	}
	w := &workload{path: backend.Path(), releaseNS: t.ArrivalNS}
	for i := range t.Len() {
		spec := prompt.Spec{
			Blocks:      t.Blocks(i),
			BlockTokens: t.BlockTokens,
			Tokens:      int(t.InputTokens[i]),
			Unique:      uint64(t.Row[i]),
		}
		output := int(t.OutputTokens[i])
		body := make([]byte, 0, backend.Size(source.Size(spec), output))
		body = source.Append(backend.AppendPrefix(body), spec)
		w.bodies = append(w.bodies, backend.AppendSuffix(body, output))
	}
	return w, nil
}
