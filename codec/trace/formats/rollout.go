package formats

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// rollout is the format of the rollouts of reinforcement learning, a line a stream.
//
//	{"global_prefix_len":800}
//	{"group":"task-1","stream":0,"prompt_len":1400,"out_lens":[120,80,60],"obs_lens":[300,40]}
//
// The streams of a group begin with the same prompt, and all prompts with the same global prefix, which prompt_len
// counts too. A stream's first request has the prompt. Each further one has the prompt before, the answer to it and the
// observation that followed. It is sent as soon as that answer has ended. A group is a job. There are no timestamps.
func rollout() *Format {
	r := &rolloutReader{
		groups:  map[string]rolloutGroup{},
		streams: map[string]bool{},
	}
	return &Format{
		Name: "rl_rollout",
		Layout: rows.Layout{Names: rows.Names{
			rows.InputField:   "prompt_len",
			rows.OutputField:  "out_lens",
			rows.SessionField: "stream",
		}},
		BlockTokens: 64,
		LastBlock:   HasNoID,
		Import: &Importer{
			Match: anyOf(hasKeys("group", "stream", "prompt_len"), hasKeys("global_prefix_len")),
			Read:  r.read,
		},
	}
}

// rolloutReader is what is known of the lines before.
type rolloutReader struct {
	prefix  int32 // tokens of the global prefix
	groups  map[string]rolloutGroup
	streams map[string]bool // by the names of their conversations
	first   int32           // number of the first row
}

// rolloutGroup is the first request of a group.
type rolloutGroup struct{ row, promptLen int32 }

func (reader *rolloutReader) read(b *Batch, o object) {
	if o.Has("global_prefix_len") && !o.Has("group") {
		if len(reader.groups) > 0 {
			o.Fail("global_prefix_len stands behind streams", "the first line must say it")
		}
		reader.prefix = int32(o.Count("global_prefix_len", rows.MaxTokens))
		o.Note(errNoRow)
		return
	}
	group := label(o, "group", "it names the prompt that streams share")
	conversation := group + "/" + label(o, "stream", "it names the stream in its group")
	answers := counts(o, "out_lens", 1)
	observations := counts(o, "obs_lens", 0)
	first := b.add()
	b.setNeeded(first, o, rows.InputField)
	promptLen := first.InputTokens
	known, old := reader.groups[group]
	switch {
	case !o.OK():
		return
	case reader.streams[conversation]:
		o.Fail("stream "+rows.Quote(conversation)+" stands on an earlier line too",
			"each stream of a group needs a name of its own")
	case old && known.promptLen != promptLen:
		o.Fail(fmt.Sprintf("prompt_len is %d, and %d in an earlier stream of the group", promptLen, known.promptLen),
			"the streams of a group share one prompt")
	case promptLen < reader.prefix:
		o.Fail(fmt.Sprintf("prompt_len is %d, and global_prefix_len %d", promptLen, reader.prefix),
			"a prompt counts the prefix too")
	case len(answers) == 0:
		o.Fail("missing out_lens", "they are the tokens of the stream's answers")
	case len(observations) < len(answers)-1 || len(observations) > len(answers):
		o.Fail(fmt.Sprintf("%d obs_lens for %d out_lens", len(observations), len(answers)),
			"an observation stands between two answers, and perhaps behind the last")
	}
	prompts := promptsOf(o, promptLen, answers, observations)
	if !o.OK() {
		return
	}
	growth := &first.Growth
	*growth = agents.Growth{
		Counted: true,
		From:    known.row,
		Kept:    promptLen,
	}
	if !old {
		growth.From = reader.first
		growth.Kept = reader.prefix
		if len(reader.groups) == 0 {
			reader.first = int32(b.First)
			growth.From = agents.FromNothing
		}
		reader.groups[group] = rolloutGroup{int32(b.First), promptLen}
	}
	reader.streams[conversation] = true
	first.Dependencies = []agents.Dependency{} // though the group's streams are in one job
	for turn, prompt := range prompts {
		r := first
		if turn > 0 {
			r = b.add()
			r.Growth = agents.GrowByLength("")
			r.Growth.From = int32(b.First + turn - 1)
			r.After(agents.Sequence, 0, b.First+turn-1)
		}
		r.Job = group
		r.InputTokens = prompt
		r.OutputTokens = int32(answers[turn])
		r.SetSession([]byte(conversation))
	}
}

// promptsOf are the tokens of a stream's prompts.
func promptsOf(o object, first int32, answers, observations []int64) (prompts []int32) {
	tokens := int64(first)
	for turn, answer := range answers {
		if tokens > rows.MaxTokens {
			o.Fail(fmt.Sprintf("the prompt of answer %d has %d tokens", turn, tokens),
				fmt.Sprintf("%d at most", rows.MaxTokens))
		}
		prompts = append(prompts, int32(tokens))
		tokens += answer
		if turn < len(observations) {
			tokens += observations[turn]
		}
	}
	return prompts
}

// label is the text or the number under a key that must have one; why is what it is needed for.
func label(o object, key, why string) string {
	value := o.Value(key)
	if value != nil && value[0]-'0' <= 9 {
		return string(value)
	}
	return o.Name(key, why)
}

// counts are the numbers of tokens in the list under a key, each at least least; none if it is not there.
func counts(o object, key string, least int64) (all []int64) {
	o.Values(key, "[1,2,…]", func(i int, value []byte) {
		place := fmt.Sprintf("%s[%d]", key, i)
		n := o.With(place, value).Count(place, rows.MaxTokens)
		if n < least {
			o.Fail(fmt.Sprintf("%s is %s", place, value), fmt.Sprintf("it is a number of tokens, at least %d", least))
		}
		all = append(all, n)
	})
	return all
}
