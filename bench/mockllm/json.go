package mockllm

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"sync"
)

// rawJSON is the text of a JSON value that is read later; nil = it is missing, or null.
type rawJSON []byte

// malformed is the error of a text that is not the JSON it should be.
func malformed(text rawJSON) error {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return badRequest("body: %v", err)
	}
	return badRequest("body: %.20s is of another type", text)
}

// walk visits the members of an object, or the elements of an array, which have no keys. Prompts are large: values are cut
// out here, and read by who visits them.
func walk(text rawJSON, visit func(key, value rawJSON) error) error {
	text = bytes.TrimSpace(text)
	if len(text) < 2 || text[0] != '{' && text[0] != '[' {
		return malformed(text)
	}
	last := len(text) - 1
	if text[last] != text[0]+2 { // brackets of a kind are two apart in ASCII
		return malformed(text)
	}
	for i, more := skipSpace(text, 1), false; more || i < last; {
		var key rawJSON
		if text[0] == '{' {
			end := valueEnd(text, i)
			if key = unquote(text[i:end]); key == nil {
				return malformed(text)
			}
			if i = skipSpace(text, end); text[i] != ':' {
				return malformed(text)
			}
			i = skipSpace(text, i+1)
		}
		end := valueEnd(text, i)
		if end <= i || end > last {
			return malformed(text)
		}
		if err := visit(key, text[i:end]); err != nil {
			return err
		}
		i = skipSpace(text, end)
		if more = text[i] == ','; more {
			i = skipSpace(text, i+1)
		} else if i != last {
			return malformed(text)
		}
	}
	return nil
}

// ignore passes over a value, which must be JSON nevertheless.
func ignore(value rawJSON) error {
	if !json.Valid(value) {
		return malformed(value)
	}
	return nil
}

// skipSpace returns the place of the first byte from i on that is no white space; the last byte of text is none.
func skipSpace(text rawJSON, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n' {
		i++
	}
	return i
}

// valueEnd returns the end of the value that begins at i, or len(text) where it has none.
func valueEnd(text rawJSON, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of what is around a number or a word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// unquote returns what a string says; nil = it is none. It aliases a string without escapes.
func unquote(text rawJSON) rawJSON {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return nil
	}
	inner := text[1 : len(text)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		var decoded string
		if json.Unmarshal(text, &decoded) != nil {
			return nil
		}
		return rawJSON(decoded)
	}
	for _, c := range inner {
		if c < ' ' {
			return nil
		}
	}
	return inner
}

// keys are the fields of the structs that requests are read into.
var keys = sync.OnceValue(func() map[reflect.Type]map[string][]int {
	all := map[reflect.Type]map[string][]int{}
	for _, t := range []reflect.Type{reflect.TypeFor[requestBody](), reflect.TypeFor[options](), reflect.TypeFor[streamOptions]()} {
		all[t] = map[string][]int{}
		for _, field := range reflect.VisibleFields(t) {
			all[t][field.Tag.Get("json")] = field.Index
		}
	}
	return all
})

// readObject reads an object into a struct of keys. encoding/json would take ten times as long, which is time of a processor that
// the client may need, too.
func readObject(text rawJSON, to reflect.Value) error {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return malformed(text)
	}
	fields := keys()[to.Type()]
	return walk(text, func(key, value rawJSON) error {
		index, known := fields[string(key)]
		if !known || string(value) == "null" {
			return ignore(value)
		}
		field := to.FieldByIndex(index)
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.New(field.Type().Elem()))
			field = field.Elem()
		}
		return readField(key, value, field)
	})
}

func readField(key, value rawJSON, to reflect.Value) (err error) {
	switch kind := to.Kind(); {
	case kind == reflect.Struct:
		return readObject(value, to)
	case to.Type() == reflect.TypeFor[rawJSON]():
		to.SetBytes(value)
	case kind == reflect.Bool && string(value) == "true":
		to.SetBool(true)
	case kind == reflect.Bool && string(value) == "false":
		to.SetBool(false)
	case kind == reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(string(value), 10, 64)
		to.SetInt(n)
	default:
		err = json.Unmarshal(value, to.Addr().Interface())
	}
	if err != nil {
		return badRequest("body: %s cannot be %.40s", key, value)
	}
	return nil
}
