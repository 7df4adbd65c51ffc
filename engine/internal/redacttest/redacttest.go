// Package redacttest makes random keys for tests, and spells them as servers repeat them.
//
// The package is not an API: any release may change it.
package redacttest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/http1"
)

// keyLetters are what keys are made of, and what regular expressions, JSON and URLs treat as their own.
const keyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+=\"'$^*[](){}|?,;:@!#&<>%\\"

// RandomKey does not end where what follows it could be read as part of its last letter.
func RandomKey(rng *rand.Rand, length int) string {
	key := make([]byte, length)
	for i := range key {
		key[i] = keyLetters[rng.IntN(len(keyLetters))]
	}
	key[length-1] = 'Z'
	if length > 1 {
		key[length-2] = 'y'
	}
	return string(key)
}

// Bearer is the header of a key.
func Bearer(key string) http1.Header {
	return http1.Header{Name: "Authorization", Value: "Bearer " + key}
}

// Quoted is the inside of a JSON string.
func Quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b[1 : len(b)-1])
}

// Spellings are how servers repeat a key, and how a reader gets it back.
func Spellings() map[string]func(string) string {
	each := func(format string) func(string) string {
		return func(key string) (out string) {
			for i := range len(key) {
				out += fmt.Sprintf(format, key[i])
			}
			return out
		}
	}
	return map[string]func(string) string{
		"plain": func(key string) string { return key }, "JSON": Quoted, "Go": func(key string) string {
			q := strconv.Quote(key)
			return q[1 : len(q)-1]
		},
		"JSON in JSON": func(key string) string { return Quoted(Quoted(key)) },
		"slashes":      func(key string) string { return strings.ReplaceAll(Quoted(key), "/", `\/`) },
		"\\u":          each(`\u%04x`), "\\U": each(`\u%04X`), "\\x": each(`\x%02x`), "percent": each("%%%02X"),
		"percent twice": each("%%25%02x"),
		"query":         url.QueryEscape, "path": url.PathEscape,
	}
}

// leastHeld is the length, in bytes, of the shortest part of a key that must not be seen.
const leastHeld = 8

// Holds returns the part of the key that text has: all of it, or 8 bytes of it in a row; "" for none.
func Holds(text, key string) string {
	for i := 0; i == 0 || i+leastHeld <= len(key); i++ {
		if part := key[i:min(i+leastHeld, len(key))]; strings.Contains(text, part) {
			return part
		}
	}
	return ""
}
