package mockllm

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

// Server is a running mock. Make it with NewGroup, run it with Start, end it with Close.
type Server struct {
	cfg            Config
	model          string
	eol            string
	words          []string
	bodyFields     []byte // of every object, each member with its comma before it
	started        time.Time
	clock          clock
	sched          scheduler
	stats          counters
	shares         fault.Shares
	chatJitter     jitter // of conversations
	tokenizeJitter jitter
	log            *requestLog
	crew           *crew
	closing        atomic.Bool
	prefills       atomic.Int64   // that other instances have done
	connsWG        sync.WaitGroup // counts the acceptor too

	mu    sync.Mutex
	ln    net.Listener
	conns map[*conn]struct{}
}

// newServer checks cfg and makes a server of it. It has no goroutines until Start.
func newServer(cfg Config, crew *crew) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("mockllm: %w", err)
	}
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:     cfg,
		model:   cmp.Or(cfg.Model, defaultModel),
		eol:     "\n",
		words:   words(),
		crew:    crew,
		clock:   crew.clock,
		started: time.Now(),
		conns:   make(map[*conn]struct{}),
	}
	if cfg.CRLF {
		s.eol = "\r\n"
	}
	var err error
	if s.bodyFields, err = renderFields(cfg.BodyFields); err != nil {
		return nil, fmt.Errorf("mockllm: %w", err)
	}
	s.sched.launch = func(r *reply) { go r.begin() }
	s.sched.slots = cfg.Slots
	s.sched.maxQueue = cfg.MaxQueue
	s.sched.priorities = cfg.Priorities
	s.sched.adapters = adapters{names: cfg.adapterNames(), room: cfg.AdapterSlots, loadNS: int64(cfg.AdapterLoad)}
	s.sched.cache = newPrefixCache(cfg.CacheTokens, cfg.BlockTokens)
	s.sched.cache.host.room = int(cfg.HostTokens / int64(cfg.BlockTokens))
	return s, nil
}

// Start serves the connections of ln in the background and returns at once. Close closes ln.
func (s *Server) Start(ln net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln != nil || s.closing.Load() {
		return errors.New("mockllm: the server was started before")
	}
	s.ln = ln
	if s.cfg.Log != nil {
		s.log = newRequestLog(s.cfg.Log)
	}
	paths() // read their templates now, not while the first request waits
	logTemplate()
	s.crew.start()
	s.connsWG.Go(s.accept)
	return nil
}

// Addr returns the address that the server listens at.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln == nil {
		return nil
	}
	return s.ln.Addr()
}

// URL returns the base URL of the server, without /v1.
func (s *Server) URL() string {
	scheme := "http://"
	if s.cfg.TLS != nil {
		scheme = "https://"
	}
	return scheme + s.Addr().String()
}

// acceptRetry is the pause after a failed accept, usually for want of descriptors.
const acceptRetry = 5 * time.Millisecond

func (s *Server) accept() {
	for i := 0; ; i++ {
		nc, err := s.ln.Accept()
		if err != nil {
			if s.closing.Load() || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(acceptRetry)
			continue
		}
		if s.cfg.TLS != nil {
			nc = tls.Server(nc, s.cfg.TLS)
		}
		c := newConn(s, nc, s.crew.pacers[(s.cfg.Instance+i)%len(s.crew.pacers)])
		s.mu.Lock()
		closing := s.closing.Load()
		if !closing {
			s.conns[c] = struct{}{} // for Close
		}
		s.mu.Unlock()
		if closing {
			nc.Close()
			return
		}
		s.connsWG.Go(func() {
			c.serve()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, c)
		})
	}
}

// Close cuts off all connections, waits until every request is accounted for, and writes the rest of the log. It
// returns the log's write error, if any.
func (s *Server) Close() error {
	s.mu.Lock()
	again := s.closing.Swap(true)
	if s.ln != nil {
		s.ln.Close()
	}
	for c := range s.conns {
		c.nc.Close()
	}
	s.mu.Unlock()
	if again {
		return nil
	}
	s.connsWG.Wait()
	s.crew.leave()
	if s.log != nil {
		return s.log.close()
	}
	return nil
}

// modelList is the answer to /v1/models.
func (s *Server) modelList() response {
	const model = `{"id":"%s","object":"model","created":%d,"owned_by":"mockllm","parent":%s,"max_model_len":%s}`
	base := appendEscaped(nil, s.model)
	body := fmt.Appendf([]byte(`{"object":"list","data":[`), model, base, s.started.Unix(), "null", s.maxModelLen())
	for _, name := range s.sched.adapters.names { // as vLLM lists them (vllm/entrypoints/openai/models/serving.py)
		body = fmt.Appendf(append(body, ','), model, name, s.started.Unix(), `"`+string(base)+`"`, "null")
	}
	body = append(body, "]}"...)
	return response{status: 200, body: body}
}

// maxModelLen is the longest context, in tokens, or null.
func (s *Server) maxModelLen() string {
	if limit := s.cfg.contextTokens(); limit > 0 {
		return strconv.FormatInt(limit, 10)
	}
	return "null"
}

// NewGroup makes a server of each configuration. They share nothing but their pacers, whose number the first one sets.
// So many servers cost no more goroutines than one. All of them have to be closed.
func NewGroup(configs []Config) ([]*Server, error) {
	if len(configs) == 0 {
		return nil, errors.New("mockllm: a group without a server")
	}
	clock, err := newClock()
	if err != nil {
		return nil, fmt.Errorf("mockllm: reading CLOCK_MONOTONIC: %w", err)
	}
	crew := &crew{clock: clock}
	crew.servers.Store(int32(len(configs)))
	for range configs[0].withDefaults().Pacers {
		crew.pacers = append(crew.pacers, newPacer(&crew.clock))
	}
	var servers []*Server
	for i := range configs {
		s, err := newServer(configs[i], crew)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// crew is the pacers of a group of servers.
type crew struct {
	clock   clock
	pacers  []*pacer
	begin   sync.Once
	wg      sync.WaitGroup
	servers atomic.Int32 // that are not closed
}

// start makes the pacers run, if they do not yet.
func (w *crew) start() {
	w.begin.Do(func() {
		for _, p := range w.pacers {
			w.wg.Go(p.run)
		}
	})
}

// leave is called once by each server, which has no requests any more. The last one ends the pacers.
func (w *crew) leave() {
	if w.servers.Add(-1) > 0 {
		return
	}
	for _, p := range w.pacers {
		close(p.stop)
	}
	w.wg.Wait()
}
