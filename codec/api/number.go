package api

import "math"

// number passes over a number and returns its bytes.
func (s *scanner) number() []byte {
	start := s.i
	if s.is('-') {
		s.i++
	}
	switch {
	case s.is('0'):
		s.i++
	case !s.digits():
		s.i = start
		s.fail("no value")
		return nil
	}
	if s.is('.') {
		s.i++
		if !s.digits() {
			s.fail("no digits after a point")
		}
	}
	if s.is('e') || s.is('E') {
		s.i++
		if s.is('+') || s.is('-') {
			s.i++
		}
		if !s.digits() {
			s.fail("no digits in an exponent")
		}
	}
	return s.b[start:s.i]
}

func (s *scanner) is(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

// digits passes over digits and reports whether there was one.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

// count reads the next value if it is a whole number from 0 to 2³¹−1, else it skips it and returns -1.
func (s *scanner) count() int {
	if c := s.peek(); c < '0' || c > '9' {
		s.skip()
		return -1
	}
	n := 0
	for _, c := range s.number() {
		if c < '0' || c > '9' {
			return -1
		}
		if n = n*10 + int(c-'0'); n > math.MaxInt32 {
			return -1
		}
	}
	return n
}
