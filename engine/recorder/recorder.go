// Package recorder records the traffic of LLM servers as traces that can be handed out.
//
// It owns a reverse proxy, the copies that it takes of what passes, and the memory that they may have. It also owns
// files that are whole at any moment. It does not own what becomes of a logged request, which is keyed, nor the format.
//
// Requests pass on the goroutines of net/http. Their copies go to one goroutine, which turns them into rows and writes
// them twice a second. What passes never waits for it: a copy that finds no room is dropped, and counted.
package recorder

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/chatml"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/keyed"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

const (
	// writeEvery is how often rows go to the disk: a crash loses those of less than a second.
	writeEvery = 500 * time.Millisecond
	// batchBytes is how much text is turned into rows at once.
	batchBytes = 1 << 20
	// maxWaiting bounds the requests that wait for their turn, whatever their size.
	maxWaiting = 1 << 16
	// endPatience is how long the recorder waits at its end for answers that still come. It then cuts the others, and
	// cutPatience is how long it waits until they are counted.
	endPatience = time.Minute
	cutPatience = time.Second
)

// Options are what to record.
type Options struct {
	Listen      string   // host:port
	Upstreams   []string // URLs of servers
	Mirror      bool     // take copies of requests, without a server
	Output      string   // file; packed if its name ends in .zst
	KeyFile     string   // as for [keyed.Open]
	Tokenizer   string   // as for [keyed.Options]
	Keep        []string // as for [keyed.Options]
	Version     string   // of the program
	TLSCert     string   // file for https to clients; "" = http
	TLSKey      string
	CACert      string        // file with what to trust of servers; "" = what the system trusts
	Insecure    bool          // trust any server
	RotateBytes int64         // of rows, not packed, after which a file is closed
	RotateAfter time.Duration // after which a file is closed; 0 = never
	MemoryBytes int64         // for all that is kept of requests until it is written
	Metrics     string        // host:port that serves metrics; "" = none
	Note        func(string)  // says to people what went wrong; any goroutine may call it

	broken   func(disk) disk // in tests: a disk that fails; nil = none
	patience time.Duration   // in tests: in place of endPatience
	clock    sched.PairClock // in tests: in place of the machine's
}

// Recorder is a running proxy.
type Recorder struct {
	o        Options
	clock    sched.PairClock // its zero is when the recorder began
	wall     *sched.Wall
	server   *http.Server
	listener net.Listener
	metrics  *http.Server // nil = none
	budget   budget
	waiting  chan *exchange
	ended    chan struct{} // nothing more will come
	written  chan struct{} // the files are closed
	hasher   *keyed.Hasher
	history  chatml.History // of conversations that servers keep
	file     *file
	files    int    // so far
	pending  []byte // rows that are not on the disk yet
	unsaved  int    // how many
	closing  error  // of the last file, once written is closed

	paths    paths
	backends map[string]api.Backend // to read answers, by name

	passed, unreached, inFlight atomic.Int64
	rows, bytes                 atomic.Int64 // on the disk; of the file
	oldestNS                    atomic.Int64 // when the oldest request ended that is not on the disk; 0 = there is none

	mu      sync.Mutex
	fresh   map[string]int // requests that are lost, by reason, and in no head yet
	closed  map[string]int // those of files that are closed
	lost    map[string]int // all
	trouble string         // the latest
}

// Start opens what is asked for and begins to record. Nothing has passed if it fails.
func Start(o Options) (r *Recorder, err error) {
	r = &Recorder{
		o:       o,
		clock:   o.clock,
		budget:  budget{most: o.MemoryBytes},
		waiting: make(chan *exchange, maxWaiting),
		ended:   make(chan struct{}),
		written: make(chan struct{}),
		fresh:   map[string]int{},
		closed:  map[string]int{},
	}
	if r.clock == nil {
		r.clock = sched.NewMonotonic()
	}
	r.wall = sched.NewWall(r.clock)
	r.backends = backends()
	p := &proxy{r: r, silent: log.New(io.Discard, "", 0)}
	if err := p.open(o); err != nil {
		return nil, err
	}
	r.hasher, err = keyed.Open(o.KeyFile, keyed.Options{
		Tokenizer: o.Tokenizer,
		Lenient:   true,
		Version:   o.Version,
		Keep:      o.Keep,
	})
	if err != nil {
		return nil, err
	}
	h := &r.hasher.Head
	h.Source = "traffic"
	h.Times = "as_logged"
	h.TimeResolutionNS = int64(time.Microsecond)
	if o.Mirror {
		h.Dropped = append(h.Dropped, "answers")
	}
	r.server = &http.Server{
		Handler:           p,
		ConnContext:       keepStamps,
		ReadHeaderTimeout: headerPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    maxHeaders,
		ErrorLog:          p.silent,
	}
	if r.listener, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	r.listener = wire.Stamped(r.listener)
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.listener.Close())
	}
	go r.write()
	return r, nil
}

// open opens what a failure must not leave behind.
func (r *Recorder) open() error {
	if r.o.TLSCert != "" || r.o.TLSKey != "" {
		pair, err := tls.LoadX509KeyPair(r.o.TLSCert, r.o.TLSKey)
		if err != nil {
			return fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		r.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	if r.o.Metrics != "" {
		listener, err := net.Listen("tcp", r.o.Metrics)
		if err != nil {
			return fmt.Errorf("--metrics-addr: %w", err)
		}
		r.metrics = &http.Server{Handler: http.HandlerFunc(r.serveMetrics), ReadHeaderTimeout: headerPatience}
		go func() { _ = r.metrics.Serve(listener) }() // it ends with Close
	}
	if err := r.newFile(); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

// open makes the proxy ready for its servers.
func (p *proxy) open(o Options) error {
	for _, text := range o.Upstreams {
		if !strings.Contains(text, "://") {
			text = "http://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("--upstream %q: want a URL, such as http://gpu1:8000", text)
		}
		if u.User != nil || u.RawQuery != "" {
			return fmt.Errorf("--upstream for %s: want no credentials and no query; each client sends its own", u.Host)
		}
		p.upstreams = append(p.upstreams, &upstream{url: u})
	}
	trust, err := probe.Trust(o.CACert, o.Insecure)
	if err != nil {
		return err
	}
	trust.NextProtos = nil // as the transport has them
	p.transport = &http.Transport{
		TLSClientConfig:        trust,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // bytes pass as they are
		MaxIdleConnsPerHost:    1 << 16,
		IdleConnTimeout:        upstreamIdle,
		MaxResponseHeaderBytes: maxHeaders,
		WriteBufferSize:        writeBytes,
	}
	return nil
}

// URL is where the recorder listens.
func (r *Recorder) URL() string {
	if r.o.TLSCert != "" {
		return "https://" + r.listener.Addr().String()
	}
	return "http://" + r.listener.Addr().String()
}

// File is the name of the file that is being written at the beginning.
func (r *Recorder) File() string { return r.file.path }

// Run passes requests on until ctx ends, and writes what is left. Its error says why it could not serve, or that the
// last file may not be whole. What else could not be written is lost, and counted.
func (r *Recorder) Run(ctx context.Context) error {
	stopped := context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), cmp.Or(r.o.patience, endPatience))
		defer cancel()
		if r.server.Shutdown(patience) != nil {
			_ = r.server.Close() // those that still wait are cut
			r.awaitCut()
		}
		close(r.ended)
	})
	var err error
	if r.o.TLSCert != "" {
		err = r.server.ServeTLS(r.listener, "", "")
	} else {
		err = r.server.Serve(r.listener)
	}
	if stopped() { // it could not serve
		close(r.ended)
	}
	<-r.written
	if r.metrics != nil {
		_ = r.metrics.Close() // nothing is lost
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, r.closing)
}

// awaitCut waits until requests that were cut have been counted. Upgraded connections do not end by that.
func (r *Recorder) awaitCut() {
	for end := time.Now().Add(cutPatience); r.inFlight.Load() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// now is the recorder's clock, in ns since its start. It is at least 1, and never set.
func (r *Recorder) now() int64 { return max(1, r.clock.Now()) }

// connKey is that of a request's connection in its context.
type connKey struct{}

// stampedConn is a connection of a client, the bytes of which the kernel stamps.
type stampedConn struct {
	*wire.Accepted
	// fresh: what came last may be the end of a handshake, after which a client may wait before it asks
	fresh atomic.Bool
}

// keepStamps leaves the connection to its requests, if the kernel stamps what it brings.
func keepStamps(ctx context.Context, c net.Conn) context.Context {
	var s stampedConn
	if t, ok := c.(*tls.Conn); ok {
		s.fresh.Store(true)
		c = t.NetConn()
	}
	var stamped bool
	if s.Accepted, stamped = c.(*wire.Accepted); !stamped {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, &s)
}

// arrival is when a request came, on the recorder's clock. It is now if the kernel did not stamp it, or if the wall
// clock by which it stamps was just set. Requests of HTTP/2 come beside each other.
func (r *Recorder) arrival(req *http.Request) int64 {
	c, stamped := req.Context().Value(connKey{}).(*stampedConn)
	if stamped && req.ProtoMajor < 2 && !c.fresh.Swap(false) {
		if first := c.FirstNS(); first > 0 {
			read := r.wall.Read()
			at, _ := read.At(first)
			return max(1, at)
		}
	}
	return r.now()
}

// begin takes a request that is to be recorded; nil for others.
func (r *Recorder) begin(req *http.Request) *exchange {
	body := &tap{ReadCloser: req.Body}
	req.Body = body
	name := ""
	if req.Method == http.MethodPost {
		name = r.paths.apiOf(req.URL.Path)
	}
	if name == "" {
		return nil
	}
	x := &exchange{api: name, beganNS: r.arrival(req), budget: &r.budget}
	for _, header := range sessionHeaders() {
		x.named.Session = cmp.Or(x.named.Session, req.Header.Get(header))
	}
	for _, k := range r.hasher.Keeps {
		if k.Header == "" {
			continue
		}
		value := req.Header.Get(k.Header)
		if new(rows.Owner).Set(k.Field, k.Field, value) != nil {
			continue // its row would be refused
		}
		if x.named.Owner == nil {
			x.named.Owner = map[string]string{}
		}
		x.named.Owner[k.Field] = value
	}
	if compressed(req.Header) {
		x.lost = lostEncoded
	}
	body.take = x.asked
	return x
}

// hand gives an exchange that has ended to the goroutine that writes.
func (r *Recorder) hand(x *exchange) {
	x.end(r.now())
	why := x.lost
	if why == "" {
		select {
		case r.waiting <- x:
			return
		default:
			why = lostMemory
			x.release()
		}
	}
	r.lose(why, 1)
}

// lose counts requests that no file has.
func (r *Recorder) lose(why string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh[why] += n
}

// fail notes what went wrong, and says it once.
func (r *Recorder) fail(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := err.Error(); text != r.trouble {
		r.trouble = text
		r.o.Note(text)
	}
}

// write turns exchanges into rows and writes them, until no more come.
func (r *Recorder) write() {
	defer close(r.written)
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	var batch []*exchange
	size := 0
	take := func() {
		r.take(batch)
		batch = batch[:0]
		size = 0
	}
	add := func(x *exchange) {
		r.oldestNS.CompareAndSwap(0, x.endedNS)
		batch = append(batch, x)
		size += len(x.request) + len(x.answer)
		if size >= batchBytes || x.goesOn() { // it may become much longer
			take()
		}
	}
	for open := true; open; {
		select {
		case x := <-r.waiting:
			add(x)
			continue
		case <-tick.C:
		case <-r.ended:
			open = false
			for len(r.waiting) > 0 {
				add(<-r.waiting)
			}
		}
		take()
		r.save()
	}
	r.closing = r.file.close()
}

// take turns exchanges into rows. What strangers send must not end the program, whatever it makes of it.
func (r *Recorder) take(batch []*exchange) {
	var log bytes.Buffer
	var logged []*exchange
	lines := json.NewEncoder(&log)
	lines.SetEscapeHTML(false) // ids are made of what was sent
	defer func() {
		if wrong := recover(); wrong != nil {
			r.lose(lostMalformed, len(logged))
			r.fail(fmt.Errorf("%d requests are lost by a fault of this program: %v", len(logged), wrong))
		}
		for _, x := range batch {
			x.release()
		}
	}()
	for _, x := range batch {
		if why := x.logTo(lines, r.backends); why != "" {
			r.lose(why, 1)
			continue
		}
		logged = append(logged, x)
	}
	if len(logged) == 0 {
		return
	}
	t, err := trace.Read(&log, "traffic", trace.Options{
		Format:  "openai_log",
		Lenient: true,
		History: &r.history,
	})
	var none *trace.LintError
	switch {
	case errors.As(err, &none) && none.Lint != nil:
		none.Lint.CountLost(&r.hasher.Head)
	case err != nil:
		r.lose(lostMalformed, len(logged))
	default:
		r.append(t, logged)
	}
}

// append appends requests to the rows that wait for the disk.
func (r *Recorder) append(t *trace.Trace, logged []*exchange) {
	rows, err := r.hasher.Next(t)
	if err != nil {
		panic("BUG: a hasher that is lenient refuses a row: " + err.Error())
	}
	if rows.Len() == 0 {
		return
	}
	for i, row := range rows.Row {
		rows.ArrivalNS[i] = logged[row].beganNS / 1000 * 1000
	}
	var text bytes.Buffer
	if err := trace.Write(&text, rows, trace.Own); err != nil {
		panic("BUG: rows have no form: " + err.Error())
	}
	_, lines, _ := bytes.Cut(text.Bytes(), []byte("\n")) // the head is that of these rows alone
	r.pending = append(r.pending, lines...)
	r.unsaved += rows.Len()
}

// save writes rows, and then the head that counts them, to the disk. It begins another file when it is time.
func (r *Recorder) save() {
	if r.unsaved > 0 {
		err := r.file.append(r.pending)
		if err != nil {
			r.lose(lostDisk, r.unsaved)
			r.fail(err)
		} else {
			r.hasher.Head.Rows += r.unsaved
			r.rows.Add(int64(r.unsaved))
		}
		r.pending = r.pending[:0]
		r.unsaved = 0
	}
	r.saveHead()
	r.bytes.Store(r.file.end)
	r.oldestNS.Store(0)
	f := r.file
	old := r.o.RotateAfter > 0 && r.now()-f.sinceNS >= int64(r.o.RotateAfter)
	if old && f.rows == 0 {
		f.sinceNS = r.now() // a file has the rows of one such time
	}
	if f.rows > 0 && (old || f.rows >= r.o.RotateBytes) {
		r.fail(r.newFile())
		if r.file != f {
			r.fail(f.close())
		}
	}
}

// saveHead writes the head, with all that is lost so far.
func (r *Recorder) saveHead() {
	h := &r.hasher.Head
	r.mu.Lock()
	for why, n := range r.fresh {
		h.Lost[why] += n
	}
	clear(r.fresh)
	r.lost = maps.Clone(r.closed)
	for why, n := range h.Lost {
		r.lost[why] += n
	}
	r.mu.Unlock()
	h.ClockMovedMS += float64(r.wall.Sample() / int64(time.Millisecond)) // less is the noise of two readings
	r.fail(r.file.setHead(h.Line()))
}

// newFile begins a file. If it cannot, the one before goes on.
func (r *Recorder) newFile() error {
	mine := ""
	if r.file != nil {
		mine = r.file.path
	}
	f, err := create(r.o.Output, mine, r.now())
	if err != nil {
		return err
	}
	if r.o.broken != nil {
		f.f = r.o.broken(f.f)
	}
	if err := f.setHead(r.hasher.Head.Line()); err != nil { // is there room for it?
		return errors.Join(err, f.close())
	}
	r.mu.Lock()
	for why, n := range r.hasher.Head.Lost {
		r.closed[why] += n
	}
	r.mu.Unlock()
	r.file = f
	r.files++
	r.hasher.Begin()
	r.hasher.Head.Rows = 0
	r.saveHead()
	return nil
}
