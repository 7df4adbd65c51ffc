package main

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/sched"
)

// spinAuto is the value of --spin that lets the waiter find out.
const spinAuto = "auto"

// spinFlag is the value of --spin, a time or sched.AutoSpin.
type spinFlag time.Duration

func (s *spinFlag) Set(text string) error {
	if text == spinAuto {
		*s = spinFlag(sched.AutoSpin)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither auto nor a time of 0 or more, such as 100us", text)
	}
	*s = spinFlag(d)
	return nil
}

func (s *spinFlag) String() string {
	if time.Duration(*s) == sched.AutoSpin {
		return spinAuto
	}
	return time.Duration(*s).String()
}

func (*spinFlag) Type() string { return "TIME" }
