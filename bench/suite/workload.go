package main

import (
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
)

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
	backend, err := api.New("completions", api.Options{Model: "mock", Stream: stream, ForceOutput: true, TokenIDs: true})
	if err != nil {
		return nil, err
	}
	w := &workload{path: backend.Path(), releaseNS: t.ArrivalNS}
	for i := range t.Len() {
		spec := prompt.Spec{Blocks: t.Blocks(i), BlockTokens: t.BlockTokens, Tokens: int(t.InputTokens[i]), Unique: uint64(t.Row[i])}
		output := int(t.OutputTokens[i])
		body := make([]byte, 0, backend.Size(source.Size(spec), output))
		body = source.Append(backend.AppendPrefix(body), spec)
		w.bodies = append(w.bodies, backend.AppendSuffix(body, output))
	}
	return w, nil
}
