package main

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// spinAuto is the value of --spin that lets the waiter find out.
const spinAuto = "auto"

// spinFlag is the value of --spin: a time, or "" for auto.
type spinFlag string

func (s *spinFlag) Set(text string) error {
	if text == spinAuto {
		*s = ""
		return nil
	}
	if d, err := time.ParseDuration(text); err != nil || d < 0 {
		return fmt.Errorf("%q is neither auto nor a time of 0 or more, such as 100us", text)
	}
	*s = spinFlag(text)
	return nil
}

func (s *spinFlag) String() string {
	if *s == "" {
		return spinAuto
	}
	return string(*s)
}

func (*spinFlag) Type() string { return "TIME" }

func (s *spinFlag) window() time.Duration {
	if d, err := time.ParseDuration(string(*s)); err == nil {
		return d
	}
	return sched.AutoSpin
}
