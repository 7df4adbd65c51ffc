package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// yes and no are JSON's.
var yes, no = json.RawMessage("true"), json.RawMessage("false")

// What several APIs are asked with. It is immutable.
var (
	ignoreEOS       = members{{"ignore_eos", yes}} // an answer goes on behind the end of a text
	streamed        = members{{"stream", yes}}
	streamWithUsage = members{{"stream", yes}, {"stream_options", []byte(`{"include_usage":true}`)}}
)

// chatMessage is a message of a chat, as OpenAI has it.
type chatMessage struct {
	raw     json.RawMessage
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Calls   json.RawMessage `json:"tool_calls"`
}

// readMessages takes the inside of a list of messages apart, and refuses what only chats have.
func readMessages(inside []byte) ([]chatMessage, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(append(append([]byte{'['}, inside...), ']'), &raws); err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	list := make([]chatMessage, len(raws))
	for i, raw := range raws {
		list[i].raw = raw
		if err := json.Unmarshal(raw, &list[i]); err != nil {
			return nil, fmt.Errorf("messages: %w", err)
		}
		if role := list[i].Role; role == "tool" || role == "function" ||
			len(list[i].Calls) > 0 && string(list[i].Calls) != "null" {
			return nil, errors.New("this API takes no messages with tools: use --api chat")
		}
		if text := list[i].Content; len(text) == 0 || text[0] != '"' { // other APIs have other names for its parts
			return nil, errors.New("this API takes no messages whose content is not a string: use --api chat")
		}
	}
	return list, nil
}

// systemApart moves the system's messages out of the list, into the key that Anthropic has for them.
func systemApart(l Verbatim) (Verbatim, error) {
	list, err := readMessages(l.Content)
	if err != nil {
		return l, err
	}
	var system []string
	var rest []byte
	for _, m := range list {
		if m.Role == "system" || m.Role == "developer" {
			var text string
			if err := json.Unmarshal(m.Content, &text); err != nil {
				return l, fmt.Errorf("messages: %w", err)
			}
			system = append(system, text)
			continue
		}
		if rest != nil {
			rest = append(rest, ',')
		}
		rest = append(rest, m.raw...)
	}
	switch {
	case system == nil:
		return l, nil
	case rest == nil:
		return l, errors.New("there are only system messages, and this API needs one of the user")
	}
	extra, err := parseObject(l.Extra)
	if err != nil {
		return l, err
	}
	if extra.find("system") < 0 {
		extra = append(extra, member{"system", appendString(nil, strings.Join(system, "\n\n"))})
	}
	l.Content = rest
	l.Extra = extra.append(nil)
	return l, nil
}
