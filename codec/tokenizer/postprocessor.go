package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

type postProcessorFile struct {
	Processors    []json.RawMessage `json:"processors"`
	Single        []templatePart    `json:"single"`
	SpecialTokens map[string]struct {
		IDs []int64 `json:"ids"`
	} `json:"special_tokens"`
	Sep []json.RawMessage `json:"sep"` // "</s>", 2
	Cls []json.RawMessage `json:"cls"`
}

// templatePart is either a special token or the text.
type templatePart struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

// newPostProcessor returns the tokens that are put before and behind a text.
func newPostProcessor(raw json.RawMessage) (head, tail []int32, err error) {
	if isNull(raw) {
		return nil, nil, nil
	}
	var f postProcessorFile
	component, kind, err := readComponent("post_processor", raw, &f)
	if err != nil {
		return nil, nil, err
	}
	switch kind {
	case "ByteLevel": // moves offsets alone
		return nil, nil, nil
	case "TemplateProcessing":
		return f.template(component)
	case "BertProcessing", "RobertaProcessing":
		if head, err = tokenOf(component, f.Cls); err == nil {
			tail, err = tokenOf(component, f.Sep)
		}
		return head, tail, err
	case "Sequence":
		for _, raw := range f.Processors {
			before, behind, err := newPostProcessor(raw)
			if err != nil {
				return nil, nil, err
			}
			head = slices.Concat(before, head)
			tail = slices.Concat(tail, behind)
		}
		return head, tail, nil
	}
	return nil, nil, unsupported("post_processor", fmt.Sprintf("type %.40q", kind))
}

// template reads what stands before and behind the text of a single sequence.
func (f *postProcessorFile) template(component string) (head, tail []int32, err error) {
	texts := 0
	for _, part := range f.Single {
		switch {
		case part.Sequence != nil:
			texts++
		case part.SpecialToken != nil:
			token, ok := f.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf(
					"%s: %.40q is not among its special_tokens",
					component,
					part.SpecialToken.ID,
				)
			}
			for _, id := range token.IDs {
				if id < 0 || id > maxID {
					return nil, nil, fmt.Errorf("%s: id %d: want 0 to %d", component, id, maxID)
				}
				if texts == 0 {
					head = append(head, int32(id))
				} else {
					tail = append(tail, int32(id))
				}
			}
		}
	}
	if texts != 1 {
		return nil, nil, unsupported(component, fmt.Sprintf("a template with the text %d times", texts))
	}
	return head, tail, nil
}

// tokenOf reads the id of ["</s>", 2].
func tokenOf(component string, pair []json.RawMessage) ([]int32, error) {
	var id int64
	if len(pair) != 2 || decode(pair[1], &id) != nil || id < 0 || id > maxID {
		return nil, fmt.Errorf(`%s: want its tokens as ["</s>", 2]`, component)
	}
	return []int32{int32(id)}, nil
}
