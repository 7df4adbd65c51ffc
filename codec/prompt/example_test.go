package prompt_test

import (
	"bytes"
	"fmt"

	"github.com/fastreplay/fastreplay/codec/prompt"
)

// Equal block ids are equal tokens, in any prompt of a seed. What lies beyond the blocks is a prompt's own.
func ExampleTokenIDs() {
	source, err := prompt.NewTokenIDs(0, prompt.BuiltInIDs())
	if err != nil {
		fmt.Println(err)
		return
	}
	one := source.Append(nil, prompt.Spec{Blocks: []uint64{7}, BlockTokens: 4, Tokens: 6, Unique: 1})
	two := source.Append(nil, prompt.Spec{Blocks: []uint64{7}, BlockTokens: 4, Tokens: 6, Unique: 2})
	a, b := bytes.Split(one, []byte(",")), bytes.Split(two, []byte(","))
	for i := range a {
		fmt.Println(i, bytes.Equal(a[i], b[i]))
	}
	// Output:
	// 0 true
	// 1 true
	// 2 true
	// 3 true
	// 4 false
	// 5 false
}
