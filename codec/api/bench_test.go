package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// chunks as vLLM streams them.
const (
	completionChunk = `{"id":"cmpl-8f4b8a7b6c5d4e3f2a1b0c9d8e7f6a5b","object":"text_completion","created":1732154321,` +
		`"model":"Qwen/Qwen2.5-7B-Instruct","choices":[{"index":0,"text":" hello","logprobs":null,"finish_reason":null,` +
		`"stop_reason":null}],"usage":null}`
	chatChunk = `{"id":"chatcmpl-8f4b8a7b6c5d4e3f2a1b0c9d8e7f6a5b","object":"chat.completion.chunk","created":1732154321,` +
		`"model":"Qwen/Qwen2.5-7B-Instruct","choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,` +
		`"finish_reason":null}]}`
	usageChunk = `{"id":"cmpl-8f4b8a7b6c5d4e3f2a1b0c9d8e7f6a5b","object":"text_completion","created":1732154321,` +
		`"model":"Qwen/Qwen2.5-7B-Instruct","choices":[],"usage":{"prompt_tokens":12035,"total_tokens":12378,` +
		`"completion_tokens":343,"prompt_tokens_details":{"cached_tokens":4608}}}`
)

// words are the texts of a stream; one in 25 needs escapes.
var words = strings.Split(` the| quick| brown| fox|,| jumps| over| a| lazy| dog|.| "It|'s| not| what|\n\n| you| think|"| said| she|, but| I| am| é`, "|")

// stream returns the events of one answer: the chunk with other texts.
func stream(chunk string, events int) (datas [][]byte, size int64) {
	for i := range events {
		text, err := json.Marshal(words[i%len(words)])
		if err != nil {
			panic(err)
		}
		data := []byte(strings.Replace(chunk, `" hello"`, string(text), 1))
		datas = append(datas, data)
		size += int64(len(data))
	}
	return datas, size
}

func BenchmarkParseEvent(b *testing.B) {
	const events = 1000
	for _, c := range []struct{ name, chunk string }{{"completions", completionChunk}, {"chat", chatChunk}, {"usage", usageChunk}} {
		datas, size := stream(c.chunk, events)
		for _, forget := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/forget=%v", c.name, forget), func(b *testing.B) {
				var d Delta
				seen := 0
				b.ReportAllocs()
				b.SetBytes(size)
				for b.Loop() {
					for _, data := range datas {
						if forget {
							d.last.size = 0
						}
						must.Do(b, parseEvent(data, &d, choices))
						if d.Token || d.HasUsage() {
							seen++
						}
					}
				}
				must.Equal(b, seen, events*b.N, "events read")
				b.ReportMetric(float64(seen)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// BenchmarkEncodingJSON is the standard library's way to the same fields.
func BenchmarkEncodingJSON(b *testing.B) {
	datas, size := stream(completionChunk, 1000)
	b.ReportAllocs()
	b.SetBytes(size)
	for b.Loop() {
		for _, data := range datas {
			var v struct {
				Choices []struct {
					Text         *string
					FinishReason *string `json:"finish_reason"`
				}
				Usage *struct {
					PromptTokens int `json:"prompt_tokens"`
				}
			}
			if err := json.Unmarshal(data, &v); err != nil || v.Choices[0].Text == nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "events/s")
}
