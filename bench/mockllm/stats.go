package mockllm

import (
	"fmt"
	"strconv"
	"sync/atomic"
)

// counters are what the server counts while it runs.
type counters struct {
	requests                    atomic.Uint64
	tokens, promptTokens        atomic.Int64
	done, gone, faulted, failed atomic.Int64
	stopped, cut                atomic.Int64 // finish reasons of what was done
	blockedWrites               atomic.Int64
}

func (s *counters) ended(r *reply, how ending) {
	s.promptTokens.Add(int64(r.promptTokens))
	switch how {
	case endDone:
		s.done.Add(1)
		if r.finish == "stop" {
			s.stopped.Add(1)
		} else {
			s.cut.Add(1)
		}
	case endGone, endShutdown:
		s.gone.Add(1)
	case endFault:
		s.faulted.Add(1)
	case endError:
		s.failed.Add(1)
	}
}

// Stats is what a Server has done so far.
type Stats struct {
	Requests      int64 // generation requests begun
	Done          int64 // … answered whole
	Gone          int64 // … whose client went away, or that the server's end cut off
	Faulted       int64 // … that a fault cut off
	Failed        int64 // … answered with an error
	Running       int   // … in a slot now
	Waiting       int   // … in the queue now
	PromptTokens  int64
	OutputTokens  int64
	QueriedTokens int64 // prompt tokens that were looked for in the prefix cache
	CachedTokens  int64 // … and found
	CachedBlocks  int   // different ones, in the prefix cache now
	HeldBlocks    int   // of a limited prefix cache, by requests in a slot now
	PoolBlocks    int   // of a limited prefix cache, in all; 0 = no limit, or no cache
	BlockedWrites int64 // events that a socket did not take at once
}

// Stats returns the counts of this moment.
func (s *Server) Stats() Stats {
	running, waiting, c := s.sched.stats(s.clock.now())
	return Stats{
		Requests:      int64(s.stats.requests.Load()),
		Done:          s.stats.done.Load(),
		Gone:          s.stats.gone.Load(),
		Faulted:       s.stats.faulted.Load(),
		Failed:        s.stats.failed.Load(),
		Running:       running,
		Waiting:       waiting,
		PromptTokens:  s.stats.promptTokens.Load(),
		OutputTokens:  s.stats.tokens.Load(),
		QueriedTokens: c.queries,
		CachedTokens:  c.hits,
		CachedBlocks:  c.findable,
		HeldBlocks:    c.held,
		PoolBlocks:    c.capacity,
		BlockedWrites: s.stats.blockedWrites.Load(),
	}
}

// metrics renders Prometheus text with the names that vLLM's V1 engine uses.
func (s *Server) metrics() response {
	st := s.Stats()
	label := `{engine="0",model_name="` + string(appendEscaped(nil, s.model)) + `"`
	var b []byte
	family := func(name, kind, help string) {
		b = append(b, "# HELP vllm:"+name+" "+help+"\n# TYPE vllm:"+name+" "+kind+"\n"...)
	}
	sample := func(name, extra string, v float64) {
		b = append(b, "vllm:"+name+label+extra+"} "...)
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
		b = append(b, '\n')
	}
	one := func(name, kind, help string, v float64) {
		if kind == "counter" {
			name += "_total"
		}
		family(name, kind, help)
		sample(name, "", v)
	}
	one("num_requests_running", "gauge", "Requests in a slot.", float64(st.Running))
	one("num_requests_waiting", "gauge", "Requests in the queue.", float64(st.Waiting))
	used := 0.0
	if st.PoolBlocks > 0 {
		used = float64(st.HeldBlocks) / float64(st.PoolBlocks)
	}
	one("kv_cache_usage_perc", "gauge", "Share of the cache's blocks that running requests hold, 0 to 1.", used)
	one("prefix_cache_queries", "counter", "Prompt tokens looked for in the prefix cache.", float64(st.QueriedTokens))
	one("prefix_cache_hits", "counter", "Prompt tokens found in the prefix cache.", float64(st.CachedTokens))
	one("prompt_tokens", "counter", "Prompt tokens.", float64(st.PromptTokens))
	one("generation_tokens", "counter", "Tokens sent.", float64(st.OutputTokens))
	one("num_preemptions", "counter", "Requests put back into the queue.", 0)
	family("request_success_total", "counter", "Requests answered whole.")
	sample("request_success_total", `,finished_reason="stop"`, float64(s.stats.stopped.Load()))
	sample("request_success_total", `,finished_reason="length"`, float64(s.stats.cut.Load()))
	family("cache_config_info", "gauge", "The prefix cache.")
	b = s.appendCacheConfig(b, st.PoolBlocks)
	b = append(b, "process_start_time_seconds "...) // as the process collector of Python's client
	b = append(strconv.AppendFloat(b, float64(s.started.UnixNano())/1e9, 'f', 3, 64), '\n')
	return response{
		status:      200,
		contentType: "text/plain; version=0.0.4; charset=utf-8",
		body:        b,
	}
}

// appendCacheConfig appends the cache's configuration as vLLM prints it: in the labels, in alphabetical order, without
// the model's name. The number of blocks is there only where they are limited; vLLM counts one that it never gives
// away.
func (s *Server) appendCacheConfig(dst []byte, poolBlocks int) []byte {
	blocks := ""
	if poolBlocks > 0 {
		blocks = fmt.Sprintf(`num_gpu_blocks="%d",`, poolBlocks+nullBlocks)
	}
	caches := "False"
	if s.cfg.CacheTokens != 0 {
		caches = "True"
	}
	return fmt.Appendf(dst, `vllm:cache_config_info{block_size="%d",cache_dtype="auto",`+
		`enable_prefix_caching="%s",engine="0",%snum_gpu_blocks_override="None",sliding_window="None"} 1.0`+"\n",
		s.cfg.BlockTokens, caches, blocks)
}

// nullBlocks stand for positions that need none (vllm/v1/core/block_pool.py).
const nullBlocks = 1
