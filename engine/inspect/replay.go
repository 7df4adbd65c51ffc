package inspect

import (
	"cmp"

	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// aroundPrompt is about how many bytes of a request's image are not its prompt: head, model, lengths and options. With a
// short model name and no headers of one's own it is 350 (the conversation trace: 873 MB of images, 869 MB of prompts).
const aroundPrompt = 350

// replay adds up the prompts. No content is needed for those that are made: their sizes follow from the lengths.
func replay(t *trace.Trace) Replay {
	ids, badIDs := prompt.NewTokenIDs(0, prompt.BuiltInIDs())
	text, badWords := prompt.NewText(0, prompt.BuiltIn())
	if err := cmp.Or(badIDs, badWords); err != nil {
		panic("BUG: inspect: " + err.Error())
	}
	return Replay{TokenIDs: volume(t, ids), Text: volume(t, text)}
}

func volume(t *trace.Trace, s prompt.Source) Volume {
	var v Volume
	for i := range t.Len() {
		if l := t.Literal(i); l.Kind != trace.NoLiteral {
			v.add(int64(len(l.Content) + len(l.Tools) + len(l.Extra)))
			continue
		}
		v.add(int64(s.Size(prompt.Spec{Blocks: t.Blocks(i), BlockTokens: t.BlockTokens, Tokens: int(t.InputTokens[i])})))
	}
	v.MemoryBytes = v.PromptBytes + aroundPrompt*int64(t.Len())
	return v
}

func (v *Volume) add(size int64) {
	v.PromptBytes += size
	v.LargestBytes = max(v.LargestBytes, size)
}
