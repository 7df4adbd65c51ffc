package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	scanned "github.com/fastreplay/fastreplay/codec/json"
)

// The oracle reads a document with encoding/json into an ordered tree and applies the definitions to the tree.

type pair struct {
	key   string
	value any
}

// ordered is a JSON object in order, with every member that came, also under a key that came before.
type ordered []pair

// decode is json.Decoder's reading of one document.
func decode(data []byte) (any, error) {
	if !json.Valid(data) {
		return nil, errors.New("not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	tree, err := decodeValue(dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one document")
	}
	return tree, nil
}

func decodeValue(dec *json.Decoder) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := ordered{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			value, err := decodeValue(dec)
			if err != nil {
				return nil, err
			}
			o = append(o, pair{key.(string), value})
		}
		_, err = dec.Token()
		return o, err
	case json.Delim('['):
		a := []any{}
		for dec.More() {
			value, err := decodeValue(dec)
			if err != nil {
				return nil, err
			}
			a = append(a, value)
		}
		_, err = dec.Token()
		return a, err
	}
	return t, nil
}

// said is a Delta without what aliases or remembers; of the answer it keeps the text, unescaped.
type said struct {
	Token, Text, EmptyFinish, Done, HasUsage, IsError bool
	Finish                                            string
	Prompt, Completion, More, Cached, Thought         int
	Content                                           string
	Tool, Reasoning                                   bool
	Tiers                                             Tiers
}

func saidBy(d *Delta) said {
	return said{d.Token, d.Text, d.EmptyFinish, d.Done, d.HasUsage(), d.IsError, d.Finish, d.PromptTokens, d.CompletionTokens, d.MoreTokens, d.CachedTokens, d.ReasoningTokens,
		string(unescaped(d.Content)), d.Tool, d.Reasoning, d.Tiers}
}

// weighed is what the tables of documents say: nothing of the answer's text or of tools.
func (s said) weighed() said {
	s.Content, s.Tool = "", false
	return s
}

// String lists what is said, as testdata/documents.txt has it.
func (s said) String() string {
	words := ""
	for _, w := range []struct {
		word string
		is   bool
	}{
		{"token", s.Token}, {"text", s.Text}, {"reasoning", s.Reasoning}, {"tool", s.Tool}, {"empty finish", s.EmptyFinish}, {"done", s.Done}, {"usage", s.HasUsage},
		{fmt.Sprint("prompt=", s.Prompt), s.Prompt >= 0}, {fmt.Sprint("completion=", s.Completion), s.Completion >= 0}, {fmt.Sprint("more=", s.More), s.More >= 0},
		{fmt.Sprint("cached=", s.Cached), s.Cached >= 0}, {fmt.Sprint("thought=", s.Thought), s.Thought >= 0}, {fmt.Sprint("tiers=", s.Tiers), s.Tiers.Known()}, {"finish=" + s.Finish, s.Finish != ""}, {"content=" + s.Content, s.Content != ""}, {"error", s.IsError},
	} {
		if w.is {
			words += w.word + " "
		}
	}
	return cmp.Or(strings.TrimSpace(words), "nothing")
}

// all returns the values of a key, in order.
func (o ordered) all(key string) (values []any) {
	for _, m := range o {
		if m.key == key {
			values = append(values, m.value)
		}
	}
	return values
}

// last returns the last value of a key, nil where there is none.
func (o ordered) last(key string) any {
	if values := o.all(key); len(values) > 0 {
		return values[len(values)-1]
	}
	return nil
}

// meaning applies the definitions to a document.
func meaning(o ordered) said {
	s, thought, answered := nothing, false, false
	for _, choices := range o.all("choices") {
		list, _ := choices.([]any)
		for _, c := range list {
			if choice, ok := c.(ordered); ok {
				reasoning, answer := addChoice(&s, choice)
				thought, answered = thought || reasoning, answered || answer
			}
		}
	}
	s.Reasoning = thought && !answered
	s.EmptyFinish = s.EmptyFinish && !s.Token
	for _, u := range o.all("usage") {
		if usage, ok := u.(ordered); ok {
			addUsage(&s, usage)
		}
	}
	s.tiers(o)
	s.IsError = commonError(o, len(o.all("choices")) > 0)
	return s
}

// tiers notes SGLang's cached tokens by tier, of an answer and of its choices, in their order.
func (s *said) tiers(o ordered) {
	for _, m := range o {
		switch value := m.value.(type) {
		case []any:
			for _, choice := range value {
				if choice, ok := choice.(ordered); ok && m.key == "choices" {
					s.tierDetails(choice.inner("sglext").inner("cached_tokens_details"))
				}
			}
		case ordered:
			if m.key == "sglext" {
				s.tierDetails(value.inner("cached_tokens_details"))
			}
		}
	}
}

func (s *said) tierDetails(details ordered) {
	for _, m := range details {
		switch m.key {
		case "device":
			s.Tiers.Device = count(m.value)
		case "host":
			s.Tiers.Host = count(m.value)
		case "storage":
			s.Tiers.External = count(m.value)
		}
	}
}

// commonError reports whether a document says in any server's way that it is an error.
func commonError(o ordered, answered bool) bool {
	failed := o.last("object") == "error" || !answered && truth(o.last("detail"))
	for _, e := range o.all("error") {
		failed = failed || truth(e)
	}
	return failed
}

// truth is what counts as something: not null, false or "".
func truth(v any) bool { return v != nil && v != false && v != "" }

// addChoice reports whether the choice has reasoning in it, and whether any other text.
func addChoice(s *said, choice ordered) (reasoning, answered bool) {
	var c, thought carried
	role, tool, finished := false, false, false
	answer, index := "", 0
	function := func(v any) {
		if f, ok := v.(ordered); ok {
			c.present, tool = true, true
			for _, m := range f {
				if m.key == "name" || m.key == "arguments" {
					c.add(m.value)
				}
			}
		}
	}
	message := func(m ordered) {
		for _, m := range m {
			switch m.key {
			case "content":
				answer, _ = m.value.(string)
				c.add(m.value)
			case "reasoning_content", "reasoning":
				thought.add(m.value)
			case "refusal":
				c.add(m.value)
			case "role":
				name, _ := m.value.(string)
				role = role || name != ""
			case "function_call":
				function(m.value)
			case "tool_calls":
				calls, _ := m.value.([]any)
				for _, call := range calls {
					if call, ok := call.(ordered); ok {
						c.present, tool = true, true
						for _, f := range call.all("function") {
							function(f)
						}
					}
				}
			}
		}
	}
	for _, m := range choice {
		switch m.key {
		case "text":
			answer, _ = m.value.(string)
			c.add(m.value)
		case "index":
			index = count(m.value)
		case "delta", "message":
			if m, ok := m.value.(ordered); ok {
				message(m)
			}
		case "finish_reason":
			if reason, _ := m.value.(string); reason != "" {
				finished, s.Finish = true, reason
			}
		}
	}
	if s.Tool = s.Tool || tool; index == 0 && s.Content == "" {
		s.Content = answer
	}
	present := c.present || thought.present
	switch {
	case c.filled || thought.filled:
		s.Token, s.Text = true, true
	case tool, present && !role && !finished:
		s.Token = true
	case present && !role:
		s.EmptyFinish = true
	}
	return thought.filled, c.filled
}

func addUsage(s *said, usage ordered) {
	hit := -1
	s.counts(usage, map[string]*int{"prompt_tokens": &s.Prompt, "completion_tokens": &s.Completion, "prompt_cache_hit_tokens": &hit})
	s.details(usage, "prompt_tokens_details")
	s.counts(usage.inner("completion_tokens_details"), map[string]*int{"reasoning_tokens": &s.Thought})
	if s.Cached < 0 {
		s.Cached = hit
	}
}

// count is a whole number from 0 to 2³¹−1, or -1.
func count(v any) int {
	n, ok := v.(json.Number)
	i, err := strconv.ParseInt(string(n), 10, 32)
	if !ok || err != nil || i < 0 || string(n) == "-0" {
		return -1
	}
	return int(i)
}

// unescaped is what the inside of a JSON string means.
func unescaped(raw []byte) []byte { return scanned.AppendUnescaped(nil, raw) }
