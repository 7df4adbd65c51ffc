package trace

import (
	"bytes"
	"errors"
	"fmt"
)

// member is a key of an object with its value as it stands.
type member struct {
	key   string
	value []byte
}

// membersOf takes an object apart. A key that occurs twice is an error.
func membersOf(object []byte) ([]member, error) {
	var all []member
	var scratch []byte
	s := scanner{b: object}
	err := s.object(&scratch, func(key []byte) error {
		for _, m := range all {
			if m.key == string(key) {
				return &rowError{m.key + " occurs twice", "keep one of them"}
			}
		}
		from := s.i
		err := s.skip(1)
		all = append(all, member{string(key), s.b[from:s.i]})
		return err
	})
	return all, err
}

// valueOf is the value of a key; nil where it is not there or null.
func valueOf(all []member, key string) []byte {
	for _, m := range all {
		if m.key == key && !bytes.Equal(m.value, []byte("null")) {
			return m.value
		}
	}
	return nil
}

// firstOf is the value of the first of some keys that is there; nil where none is.
func firstOf(all []member, keys ...string) []byte {
	for _, key := range keys {
		if value := valueOf(all, key); value != nil {
			return value
		}
	}
	return nil
}

// objectIn takes apart the object under a key; why says what it is needed for.
func objectIn(all []member, key, why string) ([]member, error) {
	value := valueOf(all, key)
	switch {
	case value == nil:
		return nil, &rowError{"missing " + key, why}
	case value[0] != '{':
		return nil, &rowError{key + " is " + clip(value) + ", not an object", why}
	}
	return membersOf(value)
}

// listIn calls each with the objects of the list under a key, which need not be there.
func listIn(all []member, key string, each func(i int, object []byte) error) error {
	list := valueOf(all, key)
	if list == nil {
		return nil
	}
	if list[0] != '[' {
		return &rowError{fmt.Sprintf("%s is %s, not a list", key, clip(list)), "write it as [{…},…]"}
	}
	return objectsOf(key, list, func(i int, object []byte) error {
		err := each(i, object)
		if bad := (*rowError)(nil); errors.As(err, &bad) {
			err = &rowError{fmt.Sprintf("%s[%d]: %s", key, i, bad.what), bad.fix}
		}
		return err
	})
}

// objectsOf calls each with what stands in a list, which must be objects.
func objectsOf(name string, list []byte, each func(i int, object []byte) error) error {
	s := scanner{b: list}
	return s.list(func(i int, value []byte) error {
		if value[0] != '{' {
			return &rowError{fmt.Sprintf("%s[%d] is %s, not an object", name, i, clip(value)), "write each as {…}"}
		}
		return each(i, value)
	})
}

// isString refuses a value that is no string.
func isString(name string, value []byte) error {
	if value[0] != '"' {
		return &rowError{fmt.Sprintf("%s is %s, not a string", name, clip(value)), `write it as "…"`}
	}
	return nil
}

// unquoted is a JSON string without its quotes.
func unquoted(value []byte) []byte { return value[1 : len(value)-1 : len(value)-1] }

// textOf is what a valid JSON string says.
func textOf(value []byte) []byte {
	var scratch []byte
	s := scanner{b: value}
	text, err := s.text(&scratch)
	if err != nil {
		panic("BUG: no JSON string: " + err.Error())
	}
	return text
}
