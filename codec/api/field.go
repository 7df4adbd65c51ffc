package api

import "strconv"

// Field returns the value at a path of keys in a JSON document: what is between a string's quotes, or a number as it stands; nil
// where there is neither. It aliases data and allocates nothing.
func Field(data []byte, path []string) (value []byte) {
	s := scanner{b: data}
	if s.peek() != '{' {
		return nil
	}
	value = s.field(path)
	if s.bad != "" {
		return nil
	}
	return value
}

// Choices is how many answers the members of a body ask for, by n or by the candidates of best_of; 1 where they do not say.
func Choices(body []byte) int {
	most := 1
	for _, path := range [][]string{{"n"}, {"best_of"}, {"sampling_params", "n"}, {"parameters", "best_of"}} {
		if n, err := strconv.Atoi(string(Field(body, path))); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// field reads the next value; of a key that comes twice the last one with a value counts.
func (s *scanner) field(path []string) (value []byte) {
	if len(path) == 0 {
		return s.scalar()
	}
	for key, ok := s.firstKey(); ok; key, ok = s.key() {
		if string(key) != path[0] {
			s.skip()
		} else if v := s.field(path[1:]); v != nil {
			value = v
		}
	}
	return value
}

// scalar reads a string or a number, and skips any other value.
func (s *scanner) scalar() []byte {
	switch c := s.peek(); {
	case c == '"':
		raw, _ := s.quoted()
		return raw
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	s.skip()
	return nil
}
