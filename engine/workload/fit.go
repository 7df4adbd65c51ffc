package workload

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
)

// Lengths returns the tokens that a server counts of request i. If the prompt is verbatim and was not counted
// (CountVerbatim), prompt is 0. If the body or extra members limit the answer, output is 0.
func (w *Work) Lengths(i int, backend api.Backend) (prompt, output int) {
	prompt = w.ServerTokens(i)
	asked := w.askedTokens(i, backend)
	if asked > 0 {
		output = max(asked, backend.Traits().Least)
	}
	return prompt, output
}

// askedTokens is the length of the answer that is asked of request i; 0 if its body or extra members say it.
func (w *Work) askedTokens(i int, backend api.Backend) int {
	l := w.Trace.Verbatim(i)
	if l.Kind == trace.VerbatimPayload || backend.OwnLength(l.Extra) {
		return 0
	}
	return int(w.Trace.OutputTokens[i])
}

// TooLong lists the requests that a context of so many tokens surely has no room for, in ascending order. As vLLM
// counts, prompt and output together must not be longer.
func (w *Work) TooLong(context int, backend api.Backend) (list []int32) {
	for i := range w.Requests() {
		prompt, output := w.Lengths(i, backend)
		if max(1, prompt)+output > context {
			list = append(list, int32(i))
		}
	}
	return list
}

// Clip makes requests whose prompts are made fit into a context. It cuts off the end of the prompt. It shortens the
// output only if there is no room for a prompt of one token and what the server adds. It returns how many tokens were
// removed, and false if no such prompt fits.
func (w *Work) Clip(requests []int32, context int, backend api.Backend) (tokens int64, ok bool) {
	least := w.Overhead.Tokens() + 1
	input := slices.Clone(w.Trace.InputTokens)
	output := slices.Clone(w.Trace.OutputTokens)
	for _, i := range requests {
		prompt, out := w.Lengths(int(i), backend)
		room := max(least, context-out)
		input[i] = min(input[i], int32(room))
		if out > 0 {
			output[i] = min(output[i], int32(context-room))
		}
		tokens += int64(prompt + out - context)
	}
	all := lists.UpTo(w.Trace.Len())
	w.Trace = w.Trace.Fitted(all, input, output)
	return tokens, least+backend.Traits().Least < context
}

// LeaveOut removes requests, in ascending order, from work before Layout. It returns their records, which contain why
// they are not sent.
func (w *Work) LeaveOut(requests []int32, runID string, backend api.Backend, why string) []record.Record {
	all := lists.UpTo(w.Trace.Len())
	kept := slices.DeleteFunc(all, func(i int32) bool {
		_, out := slices.BinarySearch(requests, i)
		return out
	})
	left := w.Requests() - len(requests)
	records := make([]record.Record, len(requests))
	for k, i := range requests {
		r := &records[k]
		w.Describe(r, int(i), IdealHits{}, backend)
		r.RequestID = RequestIDs(runID, left+k, 1)
		r.Error = why
	}
	sent := kept[:left]
	w.Verbatim = w.Verbatim.of(sent)
	w.Plan = w.Plan.Only(sent)
	w.keepRows(kept)
	return records
}

// keepRows leaves the trace the rows in order.
func (w *Work) keepRows(order []int32) {
	t := w.Trace
	w.Trace = t.Fitted(order, t.InputTokens, t.OutputTokens)
	w.Before = lists.Pick(order, w.Before)
}
