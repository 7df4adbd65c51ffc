package scrape

import "slices"

// Quantity is something that servers of several kinds report, each by its own name.
type Quantity int

// The quantities. The first four are as they stand, the others only grow until the server starts anew.
const (
	Running          Quantity = iota // requests in a batch now
	Waiting                          // requests in the queue now
	KVUsage                          // share of the KV cache in use, 0..1
	GPUPower                         // in W, of all GPUs; pages of any engine may have it
	PrefixHits                       // tokens found in the prefix cache; of old vLLM blocks, as are the queries then
	PrefixQueries                    // tokens looked for in it
	Preemptions                      // requests put back into the queue since the KV cache was full
	PromptTokens                     // tokens of prompts
	GenerationTokens                 // tokens made
	Requests                         // requests answered
	DraftTokens                      // tokens that speculative decoding proposed
	AcceptedTokens                   // those of them that the model accepted
	HostHits                         // tokens found in the host's memory
	ExternalHits                     // tokens found beyond the engine
	Transfers                        // of KV caches between prefill and decode
	TransferS                        // how long these took, in s

	Quantities = iota
)

// firstCounter is the first quantity that only grows.
const firstCounter = PrefixHits

// family is one name of a quantity.
type family struct {
	engine string
	of     Quantity
	name   string
	label  string // with value: the series that count; "" = all
	value  string
	most   bool   // the largest of the series, not their sum
	by     string // the label that distinguishes series; "" = all but those of workers of one engine
	inMS   bool   // the page has ms for the quantity's s
}

// families is every name known. Of an engine's names for one quantity the first that a page has counts: some versions
// have old names beside new ones. Counters of Python's client end in _total on the page and not in the source. A page
// belongs to the first engine of this list that it has a name of. What runs behind Dynamo's frontend has a page of its
// own. AIBrix's gateway and llm-d's scheduler have no such numbers of their own; they read those of the engines behind
// them.
func families() []family {
	return slices.Concat(
		// vLLM, V1: vllm/v1/metrics/loggers.py (PrometheusStatLogger); before 0.10 the cache's names began with gpu_.
		// V0: vllm/engine/metrics.py, whose hit rate (gpu_prefix_cache_hit_rate) cannot be had for a part of the time.
		summed("vllm", []named{
			{Running, "vllm:num_requests_running"},
			{Waiting, "vllm:num_requests_waiting"},
			{KVUsage, "vllm:kv_cache_usage_perc"},
			{KVUsage, "vllm:gpu_cache_usage_perc"},
			{PrefixHits, "vllm:prefix_cache_hits_total"},
			{PrefixHits, "vllm:gpu_prefix_cache_hits_total"},
			{PrefixQueries, "vllm:prefix_cache_queries_total"},
			{PrefixQueries, "vllm:gpu_prefix_cache_queries_total"},
			{Preemptions, "vllm:num_preemptions_total"},
			{PromptTokens, "vllm:prompt_tokens_total"},
			{GenerationTokens, "vllm:generation_tokens_total"},
			{Requests, "vllm:request_success_total"},
			// vllm/v1/spec_decode/metrics.py (SpecDecodingProm)
			{DraftTokens, "vllm:spec_decode_num_draft_tokens_total"},
			{AcceptedTokens, "vllm:spec_decode_num_accepted_tokens_total"},
			// those of its KV connector, LMCache too, which the prefix cache's own leave out
			{ExternalHits, "vllm:external_prefix_cache_hits_total"},
			// kv_connector/v1/nixl_connector.py (NixlPromMetrics)
			{Transfers, "vllm:nixl_xfer_time_seconds_count"},
			{TransferS, "vllm:nixl_xfer_time_seconds_sum"},
		}),
		// SGLang: python/sglang/srt/metrics/collector.py (SchedulerMetricsCollector, TokenizerMetricsCollector). What
		// it looks up is each prompt, once.
		summed("sglang", []named{
			{Running, "sglang:num_running_reqs"},
			{Waiting, "sglang:num_queue_reqs"},
			{KVUsage, "sglang:token_usage"},
			{PrefixHits, "sglang:cached_tokens_total"},
			{PrefixQueries, "sglang:prompt_tokens_total"},
			{Preemptions, "sglang:num_retracted_requests_total"},
			{PromptTokens, "sglang:prompt_tokens_total"},
			{GenerationTokens, "sglang:generation_tokens_total"},
			{Requests, "sglang:num_requests_total"},
			{Transfers, "sglang:kv_transfer_latency_ms_count"},
		}),
		[]family{
			// vLLM 0.32: of those of its KV connector
			{engine: "vllm", of: HostHits, name: "vllm:prompt_tokens_cached_by_source_total", label: "source",
				value: "host"},
			{engine: "sglang", of: HostHits, name: "sglang:cached_tokens_total", label: "cache_source", value: "host"},
			{engine: "sglang", of: ExternalHits, name: "sglang:cached_tokens_total", label: "cache_source",
				value: "storage"},
			{engine: "sglang", of: TransferS, name: "sglang:kv_transfer_latency_ms_sum", inMS: true},
		},
		// TGI: docs/source/reference/metrics.md of huggingface/text-generation-inference. Its counters have no _total.
		summed("tgi", []named{
			{Running, "tgi_batch_current_size"},
			{Waiting, "tgi_queue_size"},
			{PromptTokens, "tgi_request_input_length_sum"},
			{GenerationTokens, "tgi_request_generated_tokens_sum"},
			{Requests, "tgi_request_success"},
		}),
		// trtllm-serve, which has them at /prometheus/metrics: tensorrt_llm/metrics/collector.py of
		// NVIDIA/TensorRT-LLM; the first three also in the model server protocol of
		// kubernetes-sigs/gateway-api-inference-extension.
		summed("trtllm", []named{
			{Running, "trtllm_num_requests_running"},
			{Waiting, "trtllm_num_requests_waiting"},
			{KVUsage, "trtllm_kv_cache_utilization"},
			{PrefixHits, "trtllm_prompt_cached_tokens_total"},
			{PrefixQueries, "trtllm_prompt_tokens_total"},
			{PromptTokens, "trtllm_prompt_tokens_total"},
			{GenerationTokens, "trtllm_generation_tokens_total"},
			{Requests, "trtllm_request_success_total"},
		}),
		tritonFamilies(),
		// Dynamo's frontend: docs/observability/metrics.md of ai-dynamo/dynamo. Those in flight include those in its
		// queue.
		summed("dynamo", []named{
			{Running, "dynamo_frontend_inflight_requests"},
			{Waiting, "dynamo_frontend_queued_requests"},
			{PromptTokens, "dynamo_frontend_input_sequence_tokens_sum"},
			{GenerationTokens, "dynamo_frontend_output_tokens_total"},
			{GenerationTokens, "dynamo_frontend_output_sequence_tokens_sum"},
			{Requests, "dynamo_frontend_requests_total"},
		}),
		// DCGM's exporter, usually on port 9400: etc/default-counters.csv of NVIDIA/dcgm-exporter. If a GPU is cut into
		// instances (MIG), or pods share it, it has a line for each. Each has the same UUID and the whole power.
		[]family{
			{engine: "dcgm", of: GPUPower, name: "DCGM_FI_DEV_POWER_USAGE", by: "UUID"},
		},
	)
}

// tritonFamilies are those of Triton, usually on port 8002: README.md of triton-inference-server/tensorrtllm_backend
// (section Triton Metrics), docs/user_guide/metrics.md of triton-inference-server/server. A request passes several
// models of an ensemble, so the busiest model counts.
func tritonFamilies() []family {
	return []family{
		{engine: "triton", of: Running, name: "nv_trt_llm_request_metrics", label: "request_type", value: "scheduled"},
		{engine: "triton", of: Waiting, name: "nv_trt_llm_request_metrics", label: "request_type", value: "waiting"},
		{engine: "triton", of: Waiting, name: "nv_inference_pending_request_count", most: true},
		{engine: "triton", of: KVUsage, name: "nv_trt_llm_kv_cache_block_metrics", label: "kv_cache_block_type",
			value: "fraction"},
		{engine: "triton", of: Requests, name: "nv_inference_request_success", most: true},
	}
}

// named is a name whose series are summed.
type named struct {
	of   Quantity
	name string
}

func summed(engine string, names []named) (all []family) {
	for _, n := range names {
		all = append(all, family{engine: engine, of: n.of, name: n.name})
	}
	return all
}
