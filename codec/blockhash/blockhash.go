// Package blockhash names the blocks of prompts so that equal names mean equal prefixes. Nobody without the key can
// tell what a name stands for.
//
// It owns the key, its file, and the chain. The id of a block is a keyed hash of the id of the block before and of its
// own tokens. It does not own tokenizers, nor where ids are written. A [Key] is plain data; a [Chain] belongs to one
// goroutine and allocates only what it appends.
package blockhash

import (
	"encoding/binary"
	"encoding/hex"
	"hash"

	"golang.org/x/crypto/blake2b"
)

const (
	// BlockTokens is how many tokens an id stands for. Every 4th id is that of a block of 64, every 32nd of 512.
	BlockTokens = 16
	// Hash is what is computed, as a file's head names it. Of the 64 bits the first is left 0, since many readers hold
	// ids in signed numbers.
	Hash = "blake2b-64-keyed"
)

// What a hash is taken for is its first byte: nothing that is hashed for one purpose is equal to that of another.
const (
	forBlock     = 'b'
	forStart     = 's'
	forPseudonym = 'p'
	forKeyID     = 'k'
)

// Chain makes ids of the blocks of texts.
type Chain struct {
	hash    hash.Hash
	start   uint64 // stands before each first block
	message []byte // scratch
	sum     []byte // scratch
}

// Chain returns one whose ids are equal to those of others only if the key is, and the domain: what tokens mean.
func (k Key) Chain(domain string) *Chain {
	c := &Chain{hash: k.hash()}
	c.start = c.number(append([]byte{forStart}, domain...))
	return c
}

// Append goes on with the ids of a text. Those in ids are of its first whole blocks. It appends an id for each other
// block, the last one perhaps partial.
func (c *Chain) Append(ids []uint64, tokens []int32) []uint64 {
	for at := len(ids) * BlockTokens; at < len(tokens); at += BlockTokens {
		parent := c.start
		if len(ids) > 0 {
			parent = ids[len(ids)-1]
		}
		c.message = binary.LittleEndian.AppendUint64(append(c.message[:0], forBlock), parent)
		for _, token := range tokens[at:min(at+BlockTokens, len(tokens))] {
			c.message = binary.LittleEndian.AppendUint32(c.message, uint32(token))
		}
		ids = append(ids, c.number(c.message))
	}
	return ids
}

// number is the hash of a message in 63 bits.
func (c *Chain) number(message []byte) uint64 {
	c.hash.Reset()
	_, _ = c.hash.Write(message) // a hash never fails
	c.sum = c.hash.Sum(c.sum[:0])
	return binary.LittleEndian.Uint64(c.sum) >> 1
}

// Pseudonym returns a name for a name, such as that of a session. Equal names for different purposes have nothing in
// common.
func (k Key) Pseudonym(purpose, name string) string {
	message := append([]byte{forPseudonym, byte(len(purpose))}, purpose...)
	return k.sum(append(message, name...))
}

// ID tells keys apart, and nothing of them.
func (k Key) ID() string { return k.sum([]byte{forKeyID}) }

func (k Key) sum(message []byte) string {
	h := k.hash()
	_, _ = h.Write(message) // a hash never fails
	return hex.EncodeToString(h.Sum(nil))
}

func (k Key) hash() hash.Hash {
	h, err := blake2b.New(8, k.secret[:])
	if err != nil {
		panic("BUG: the size of a hash or a key is wrong: " + err.Error())
	}
	return h
}
