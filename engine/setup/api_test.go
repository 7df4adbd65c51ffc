package setup

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// TestChooseAPI: a trace with messages is a chat where nobody says otherwise.
func TestChooseAPI(t *testing.T) {
	chat, overhead := verbatims{chat: true}, &workload.Overhead{Head: 20, Tail: 5}
	at := func(endpoint string) verbatims { return verbatims{endpoint: endpoint} }
	for _, c := range []struct {
		o           Options
		of          verbatims
		api, prompt string
		says        string // of the error; "" = there is none
	}{
		{Options{}, verbatims{}, "completions", PromptTokenIDs, ""},
		{Options{Prompt: PromptText}, verbatims{}, "completions", PromptText, ""},
		{Options{API: "chat"}, verbatims{}, "chat", PromptText, ""},
		{Options{}, chat, "chat", PromptText, ""},
		{Options{API: "completions"}, chat, "completions", PromptTokenIDs, ""},
		{Options{Overhead: overhead}, verbatims{}, "", "", "--api completions has no template"},
		{Options{API: "chat", Prompt: PromptTokenIDs}, verbatims{}, "", "", "--api chat takes text"},
		{Options{Prompt: PromptTokenIDs}, chat, "", "", "--api chat takes text"},
		{Options{Overhead: overhead}, chat, "chat", PromptText, ""},
		{Options{}, at("/v1/chat/completions"), "chat", PromptText, ""},
		{Options{API: "completions"}, at("/v1/chat/completions"), "", "", "which is --api chat"},
		{Options{}, verbatims{chat: true, endpoint: "/v1/score"}, "", "", "which none of the APIs has: completions, chat"},
		{Options{}, at("/v1/embeddings"), "embeddings", PromptTokenIDs, ""},
		{Options{API: "raw"}, at("/v1/embeddings"), "", "", "posts whole bodies"},
		{Options{}, at("/generate"), "", "", "--api tgi or --api sglang"},
		{Options{API: "sglang"}, at("/generate"), "sglang", PromptTokenIDs, ""},
		{Options{API: "tgi"}, at("/generate"), "tgi", PromptText, ""},
		{Options{API: "messages"}, at("/generate"), "", "", "which is --api tgi"},
		{Options{API: "tgi"}, verbatims{}, "tgi", PromptText, ""},
		{Options{API: "tgi", Prompt: PromptTokenIDs}, verbatims{}, "", "", "--api tgi takes text"},
		{Options{API: "sglang", Cold: probe.ColdSalt}, verbatims{}, "", "", "--api sglang has no cache_salt"},
	} {
		o := c.o
		err := o.chooseAPI(&c.of)
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) || c.says == "" && (err != nil || o.API != c.api || o.Prompt != c.prompt) {
			t.Errorf("--api %q, --prompt %q, of %+v: %s, %s, %v; want %s, %s, %q", c.o.API, c.o.Prompt, c.of, o.API, o.Prompt, err, c.api, c.prompt, c.says)
		}
	}
}
