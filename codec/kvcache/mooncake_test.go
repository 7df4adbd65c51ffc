package kvcache

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// The Mooncake conversation trace has shares of reuse that were computed
// without this package.
func TestMooncakeConversation(t *testing.T) {
	directory := os.Getenv("FASTREPLAY_TRACES")
	if directory == "" {
		t.Skip("FASTREPLAY_TRACES names no directory with mooncake-conversation.jsonl.zst")
	}
	file, err := os.Open(filepath.Join(directory, "mooncake-conversation.jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()

	const blockTokens = 512
	byToken, byBlock := NewInfinite(blockTokens, 1), NewInfinite(blockTokens, blockTokens)
	var rows, tokens, fullBlocks, hitTokens, hitBlocks int
	for rowsIn := json.NewDecoder(plain); ; rows++ {
		var row struct {
			Tokens int      `json:"input_length"`
			Blocks []uint64 `json:"hash_ids"`
		}
		if err := rowsIn.Decode(&row); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		tokens += row.Tokens
		fullBlocks += row.Tokens / blockTokens
		// One token of tail, so that a whole text can be held.
		hitTokens += byToken.Expected(row.Blocks, row.Tokens, 0, row.Tokens+1)
		hitBlocks += byBlock.Expected(row.Blocks, row.Tokens, 0, row.Tokens+1) / blockTokens
	}
	if rows != 12031 || tokens != 144793823 {
		t.Fatalf("%d rows with %d tokens, want 12,031 and 144,793,823: another trace?", rows, tokens)
	}
	checkShare(t, "tokens", hitTokens, tokens, 0.3736)
	checkShare(t, "full blocks", hitBlocks, fullBlocks, 0.3819)
}

func checkShare(t *testing.T, of string, hit, all int, want float64) {
	t.Helper()
	if got := float64(hit) / float64(all); math.Abs(got-want) > 0.00005 {
		t.Errorf("%.4f of the %s are held, want %.4f", got, of, want)
	}
}
