package tokenizer

import "strings"

// byteRunes returns the letter that byte-level vocabularies write for each byte:
// the byte's own character where that prints, else one from U+0100 on. The
// table is OpenAI's, from the encoder of GPT-2.
func byteRunes() (table [256]rune) {
	next := rune(256)
	for b := range table {
		switch {
		case b >= '!' && b <= '~', b >= 0xA1 && b <= 0xAC, b >= 0xAE:
			table[b] = rune(b)
		default:
			table[b] = next
			next++
		}
	}
	return table
}

// byteLetters spells every byte of s by its letter.
func byteLetters(table *[256]rune, s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/4)
	for i := range len(s) {
		b.WriteRune(table[s[i]])
	}
	return b.String()
}

// byteReader returns the reverse of byteLetters. It makes nothing of a text that
// holds a letter which stands for no byte.
func byteReader() func(s string) string {
	reverse := make(map[rune]byte, 256)
	for b, r := range byteRunes() {
		reverse[r] = byte(b)
	}
	return func(s string) string {
		out := make([]byte, 0, len(s))
		for _, r := range s {
			b, ok := reverse[r]
			if !ok {
				return ""
			}
			out = append(out, b)
		}
		return string(out)
	}
}
