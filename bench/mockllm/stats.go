package mockllm

import (
	"fmt"
	"sync/atomic"
)

// counters are what the server counts while it runs.
type counters struct {
	requests             atomic.Uint64 // begun
	ended                atomic.Int64  // of these, however they ended
	stopped, cut         atomic.Int64  // of these the ones that were answered whole, by their finish reason
	tokens, promptTokens atomic.Int64
	blockedWrites        atomic.Int64 // events that a socket did not take at once
}

// end counts a reply that has ended.
func (s *counters) end(r *reply, how ending) {
	s.promptTokens.Add(int64(r.promptTokens))
	switch {
	case how != endDone:
	case r.finish == "stop":
		s.stopped.Add(1)
	default:
		s.cut.Add(1)
	}
	s.ended.Add(1)
}

// metrics renders Prometheus text with the names that vLLM's V1 engine uses.
func (s *Server) metrics() response {
	running, waiting, cache := s.sched.stats(s.clock.now())
	used := 0.0
	if cache.capacity > 0 {
		used = float64(cache.held) / float64(cache.capacity)
	}
	labels := `engine="0",model_name="` + string(appendEscaped(nil, s.model)) + `"`
	var b []byte
	for _, m := range []struct {
		name, kind, help string
		value            float64
	}{
		{"num_requests_running", "gauge", "Requests in a slot.", float64(running)},
		{"num_requests_waiting", "gauge", "Requests in the queue.", float64(waiting)},
		{"kv_cache_usage_perc", "gauge", "Share of the cache's blocks that running requests hold, 0 to 1.", used},
		{"prefix_cache_queries_total", "counter", "Prompt tokens looked for in the prefix cache.", float64(cache.queries)},
		{"prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", float64(cache.hits)},
		{"external_prefix_cache_hits_total", "counter", "Prompt tokens found in the second tier.", float64(cache.fromHost)},
		{"prompt_tokens_total", "counter", "Prompt tokens.", float64(s.stats.promptTokens.Load())},
		{"generation_tokens_total", "counter", "Tokens sent.", float64(s.stats.tokens.Load())},
		{"num_preemptions_total", "counter", "Requests put back into the queue.", 0},
	} {
		b = fmt.Appendf(b, "# HELP vllm:%[1]s %[2]s\n# TYPE vllm:%[1]s %[3]s\nvllm:%[1]s{%[4]s} %[5]g\n",
			m.name, m.help, m.kind, labels, m.value)
	}
	b = fmt.Appendf(b, `# HELP vllm:request_success_total Requests answered whole.
# TYPE vllm:request_success_total counter
vllm:request_success_total{%[1]s,finished_reason="stop"} %[2]g
vllm:request_success_total{%[1]s,finished_reason="length"} %[3]g
# HELP vllm:cache_config_info The prefix cache.
# TYPE vllm:cache_config_info gauge
`, labels, float64(s.stats.stopped.Load()), float64(s.stats.cut.Load()))
	b = s.appendCacheConfig(b, cache.capacity)
	b = s.sched.appendAdapters(b)
	// as the process collector of Python's client
	b = fmt.Appendf(b, "process_start_time_seconds %.3f\n", float64(s.started.UnixNano())/1e9)
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
