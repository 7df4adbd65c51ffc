package formats

import (
	"bytes"
	"fmt"
	"regexp"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// vllmLog is the format of the requests in the log of a vLLM server, among other lines:
//
//	DEBUG 11-27 09:00:00 [logger.py:47] Request x details: prompt: 'Hi', prompt_token_ids: [1, 2], prompt_embeds …
//	INFO 11-27 09:00:01 [logger.py:72] Generated response x: output: 'A', output_token_ids: [3], finish_reason: stop
//
// as vllm/entrypoints/logger.py of https://github.com/vllm-project/vllm writes it (2025 and 2026; older versions have
// the prompt in "Received request"), with --enable-log-requests, --enable-log-outputs and VLLM_LOGGING_LEVEL=DEBUG, and
// without --max-log-len. Prompts are sent as token ids; of answers the length is taken. Times are whole seconds without
// a year. A request of which no answer was logged counts as failed.
func vllmLog() *Format {
	v := vllmReader{}
	return &Format{
		Name: "vllm_log",
		Layout: rows.Layout{Names: rows.Names{
			rows.TimestampField: "the time",
			rows.PayloadField:   "prompt_token_ids",
		}},
		Unit:         time.Second,
		WholeSeconds: true,
		Words:        true,
		Import: &Importer{
			Match:    func(keys []string) bool { return len(keys) == 0 },
			Looks:    func(text []byte) bool { return vllmAsked.Match(text) || vllmAnswered.Match(text) },
			ReadText: v.read,
			End: func(b *Batch) {
				b.endFailed(len(v))
				clear(v)
			},
		},
	}
}

// The lines of a request and of its answer.
var (
	vllmAsked = regexp.MustCompile(`^[^']*? (\d\d-\d\d) ([\d:]{8}) [^']*?(?:Received request|Request) (\S+?)` +
		`(?: details)?: prompt: .*prompt_token_ids: (\[[\d, ]+\])`)
	vllmAnswered = regexp.MustCompile(`^[^']*?Generated response (\S+?)( \(streaming \w+\))?: ` +
		`output: .*output_token_ids: (\S.*), finish`)
)

// vllmReader has the requests without an answer so far, by their names.
type vllmReader map[string]*vllmRequest

type vllmRequest struct {
	atNS   int64
	prompt []byte // a list
	output int    // tokens so far
}

func (v vllmReader) read(b *Batch, line []byte) {
	if asked := vllmAsked.FindSubmatch(line); asked != nil { // of the date, the time, a name and tokens
		at, err := rows.InstantOf("the time", fmt.Appendf(nil, "2024-%s %s", asked[1], asked[2])) // a leap year
		b.note(err)
		name := string(asked[3])
		if v[name] != nil {
			b.note(rows.Bad("request "+rows.Quote(name)+" occurs twice", "give one server's log at a time"))
		}
		if b.Fault != nil {
			return
		}
		v[name] = &vllmRequest{atNS: at, prompt: bytes.Clone(asked[4])}
	}
	answered := vllmAnswered.FindSubmatch(line)
	if answered == nil || v[string(answered[1])] == nil {
		b.note(errNoRow)
		return
	}
	name := string(answered[1])
	r := v[name]
	if tokens := answered[3]; tokens[0] == '[' && len(tokens) > len("[]") {
		r.output += bytes.Count(tokens, []byte(",")) + 1
	}
	if string(answered[2]) == " (streaming delta)" {
		b.note(errNoRow)
		return
	}
	delete(v, name)
	row := b.add()
	row.SetSpan(r.atNS, r.atNS)
	row.TookNS = -1 // seconds do not tell
	row.OutputTokens = int32(r.output)
	b.setBody(row, fmt.Appendf(nil, `{"prompt":%s}`, r.prompt))
	b.checkPrompt(row)
}
