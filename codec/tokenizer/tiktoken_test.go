package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

var update = flag.Bool("update", false, "make the packed vocabularies anew from those of github.com/tiktoken-go/tokenizer")

// oracle is another implementation of a built-in vocabulary.
func oracle(name string) *codec.Codec {
	if name == CL100K {
		return codec.NewCl100kBase()
	}
	return codec.NewO200kBase()
}

// TestVocabulariesAreOpenAIs: the packed vocabularies hold OpenAI's files, byte for byte. The checksums are those of
// https://openaipublic.blob.core.windows.net/encodings/NAME.tiktoken, as tiktoken checks them
// (tiktoken_ext/openai_public.py).
func TestVocabulariesAreOpenAIs(t *testing.T) {
	for _, c := range []struct {
		name, packed string
		size         int
		sum          string
	}{
		{CL100K, packedCL100K, sizeCL100K, "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"},
		{O200K, packedO200K, sizeO200K, "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"},
	} {
		if *update {
			c.packed = pack(t, oracle(c.name), c.size)
			must.Do(t, os.WriteFile(c.name+".zst", []byte(c.packed), 0o644))
		}
		var file bytes.Buffer
		tok := &tiktoken{seed: maphash.MakeSeed()}
		tok.unpack(c.packed, c.size)
		for id := range int32(c.size) {
			fmt.Fprintf(&file, "%s %d\n", base64.StdEncoding.EncodeToString(tok.piece(id)), id)
			must.Equal(t, tok.idOf(tok.piece(id)), id, "%s: %q has id", c.name, tok.piece(id))
		}
		sum := sha256.Sum256(file.Bytes())
		expect.Equal(t, hex.EncodeToString(sum[:]), c.sum, "%s: the checksum", c.name)
	}
}

// pack is the reverse of unpack.
func pack(t *testing.T, from *codec.Codec, size int) string {
	t.Helper()
	var lengths, pieces []byte
	for id := range size {
		piece, err := from.Decode([]uint{uint(id)})
		if err != nil || len(piece) > maxPiece {
			t.Fatalf("id %d: %d bytes, %v", id, len(piece), err)
		}
		lengths, pieces = append(lengths, byte(len(piece))), append(pieces, piece...)
	}
	packer := must.Have(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression)))(t)
	return string(packer.EncodeAll(append(lengths, pieces...), nil))
}

// TestTiktokenCuts: a text cut where the patterns cut, with words remembered, has the ids of the text in one piece.
func TestTiktokenCuts(t *testing.T) {
	parts := []string{" ", "  ", "\n", "\t", "\r\n", "a", "B", "word", "don't", "'s", "1", "2345", ".", "...", "/", "é", "日本", " the", " x1", "\u00a0", "🙂", "\x7f", "_", "\u0301"}
	chance := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{CL100K, O200K} {
		tok := builtIn(name)
		for range 3000 {
			var text strings.Builder
			for range 1 + chance.IntN(30) {
				text.WriteString(parts[chance.IntN(len(parts))])
			}
			want := tok.model.append(nil, text.String(), newScratch())
			if got := tok.encode(nil, text.String()); !slices.Equal(got, want) {
				t.Fatalf("%s, %q: %v, want %v", name, text.String(), got, want)
			}
		}
	}
}

// TestTiktokenMerges: long words that only merges make have the ids of another implementation. TestGoldenVectors has
// texts of all kinds: the other implementation (v0.10.0) cuts some of them otherwise than OpenAI's, and drops U+007F.
func TestTiktokenMerges(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{CL100K, O200K} {
		tok, other := builtIn(name), oracle(name)
		for range 300 {
			word := make([]byte, 1+chance.IntN(1000))
			for i := range word {
				word[i] = 'a' + byte(chance.IntN(26))
			}
			want, _, err := other.Encode(string(word))
			must.Do(t, err)
			got := tok.encode(nil, string(word))
			if !slices.EqualFunc(got, want, func(a int32, b uint) bool { return a == int32(b) }) {
				t.Fatalf("%s, %s: %v, want %v", name, word, got, want)
			}
		}
	}
}
