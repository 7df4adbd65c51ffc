package kvcache

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// mooncakeBlock is how many tokens an id of Mooncake's traces stands for.
const mooncakeBlock = 512

// mooncakeRow is a request of Mooncake's traces.
type mooncakeRow struct {
	Tokens int      `json:"input_length"`
	Blocks []uint64 `json:"hash_ids"`
}

// mooncakeConversation reads the conversation trace, where there is one.
func mooncakeConversation(t *testing.T) (rows []mooncakeRow) {
	t.Helper()
	directory := os.Getenv("FASTREPLAY_TRACES")
	if directory == "" {
		t.Skip("FASTREPLAY_TRACES names no directory with mooncake-conversation.jsonl.zst")
	}
	file := must.Have(os.Open(filepath.Join(directory, "mooncake-conversation.jsonl.zst")))(t)
	defer file.Close()
	plain := must.Have(zstd.NewReader(file))(t)
	defer plain.Close()
	tokens := 0
	for rowsIn := json.NewDecoder(plain); ; {
		var row mooncakeRow
		if err := rowsIn.Decode(&row); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
		tokens += row.Tokens
	}
	if len(rows) != 12031 || tokens != 144793823 {
		t.Fatalf("%d rows with %d tokens, want 12,031 and 144,793,823: another trace?", len(rows), tokens)
	}
	return rows
}

// The Mooncake conversation trace has shares of reuse that were computed without this package.
func TestMooncakeConversation(t *testing.T) {
	byToken, byBlock := NewInfinite(mooncakeBlock, 1), NewInfinite(mooncakeBlock, mooncakeBlock)
	var tokens, fullBlocks, hitTokens, hitBlocks int
	for _, row := range mooncakeConversation(t) {
		tokens += row.Tokens
		fullBlocks += row.Tokens / mooncakeBlock
		// One token of tail, so that a whole text can be held.
		hitTokens += byToken.Expected(row.Blocks, row.Tokens, 0, row.Tokens+1)
		hitBlocks += byBlock.Expected(row.Blocks, row.Tokens, 0, row.Tokens+1) / mooncakeBlock
	}
	checkShare(t, "tokens", hitTokens, tokens, 0.3736)
	checkShare(t, "full blocks", hitBlocks, fullBlocks, 0.3819)
}

// If blocks are freed tail first, as in vLLM, a pool of 3M tokens has 13.61 % of the blocks that the trace refers to.
// Each counts as a whole one, a last partial one too, and whole prompts can be found. For the latter the prompts have
// one token more, and the pool a block for it.
func TestMooncakeConversationLRU(t *testing.T) {
	c := NewLRU(mooncakeBlock, mooncakeBlock, 3_000_000+mooncakeBlock)
	var references, hits int
	for _, row := range mooncakeConversation(t) {
		tokens := len(row.Blocks) * mooncakeBlock
		r, cached := c.Start(row.Blocks, tokens, 0, tokens+1, 0)
		c.Prefilled(r)
		c.Finish(r)
		references += len(row.Blocks)
		hits += cached / mooncakeBlock
	}
	checkShare(t, "blocks", hits, references, 0.1361)
}

func checkShare(t *testing.T, of string, hit, all int, want float64) {
	t.Helper()
	expect.Near(t, float64(hit)/float64(all), want, 0.00005, "of the %s are held", of)
}
