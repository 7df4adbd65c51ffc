package record

import (
	"bytes"
	"math"
	"unicode/utf8"
	"unsafe"
)

// parse reads a line as AppendJSON writes it: keys in their order, nothing between them, and no escapes in texts. It
// reports false of any other line, of which it may have read a part. encoding/json takes ten times as long.
func (r *Record) parse(line []byte) bool {
	rest, is := bytes.CutPrefix(line, []byte("{"))
	for i := 0; is && i < len(keys); i++ {
		k := &keys[i]
		value, found := bytes.CutPrefix(rest, k.lead[1:k.before])
		if !found {
			continue
		}
		size := k.parse(r, value)
		if size == 0 || size == len(value) {
			return false
		}
		rest = value[size+1:]
		if value[size] == '}' {
			return len(bytes.TrimSpace(rest)) == 0
		}
		is = value[size] == ','
	}
	return false
}

// parse reads the value that text begins with into the key's field of r, and returns its size. It is 0 if AppendJSON
// would not write it so.
func (k *Key) parse(r *Record, text []byte) int {
	if bytes.HasPrefix(text, []byte("null")) {
		return len("null")
	}
	field := unsafe.Add(unsafe.Pointer(r), k.offset)
	switch {
	case k.derived != nil: // a number that is not needed
		return len(text) - len(bytes.TrimLeft(text, "-.0123456789"))
	case k.Kind == Integer:
		n, size := integer(text)
		if size > 0 {
			*(*int64)(field) = n
		}
		return size
	}
	said, size := quoted(text)
	if size == 0 {
		return 0
	}
	var err error
	switch {
	case k.Kind == Date:
		err = r.SentAt.UnmarshalText(said)
	case k.offset == unsafe.Offsetof(r.Outcome):
		err = r.Outcome.UnmarshalText(said)
	default:
		*(*string)(field) = string(said)
	}
	if err != nil {
		return 0
	}
	return size
}

// integer reads a whole number, and returns its size; 0 if it is none or as large as few hashes are.
func integer(text []byte) (n int64, size int) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		size = 1
	}
	first := size
	for size < len(text) && text[size]-'0' <= 9 {
		if n > (math.MaxInt64-9)/10 {
			return 0, 0
		}
		n = n*10 + int64(text[size]-'0')
		size++
	}
	if size == first || size > first+1 && text[first] == '0' {
		return 0, 0
	}
	if negative {
		n = -n
	}
	return n, size
}

// quoted reads a string without escapes, and returns its size; 0 if it is none, or no UTF-8.
func quoted(text []byte) (said []byte, size int) {
	if len(text) == 0 || text[0] != '"' {
		return nil, 0
	}
	end := bytes.IndexByte(text[1:], '"')
	if end < 0 {
		return nil, 0
	}
	said = text[1 : 1+end]
	ascii := true
	for _, c := range said {
		if c < ' ' || c == '\\' {
			return nil, 0
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if !ascii && !utf8.Valid(said) {
		return nil, 0
	}
	return said, end + len(`""`)
}
