package sched

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Rate is how many requests are released per second: From at instant 0, To from Over on, and in between a straight line.
type Rate struct {
	From, To float64
	Over     time.Duration // 0 = To from the start
}

// Steady is a rate that never changes.
func Steady(perSecond float64) Rate { return Rate{From: perSecond, To: perSecond} }

func (r Rate) validate() error {
	switch {
	case !(r.To > 0) || math.IsInf(r.To, 0):
		return fmt.Errorf("rate is %v; want requests per second above 0", r.To)
	case !(r.From >= 0) || math.IsInf(r.From, 0):
		return fmt.Errorf("rate begins at %v; want requests per second, at least 0", r.From)
	case r.Over < 0 || r.Over == 0 && r.From != r.To:
		return errors.New("a ramp must last longer than 0")
	}
	return nil
}

// when is the instant in ns at which as many requests are due as at a steady rate of To after steadyNS: where the integral of
// the rate gets there. Products are rounded before they are added, as on processors that do not fuse both.
func (r Rate) when(steadyNS float64) float64 {
	over := float64(r.Over)
	if over == 0 || steadyNS == 0 {
		return steadyNS
	}
	from := r.From / r.To
	end := over * (1 + from) / 2 // as much is due at the end of the ramp
	if steadyNS >= end {
		return over + (steadyNS - end)
	}
	bend := float64(2 * (1 - from) * steadyNS / over)
	return 2 * steadyNS / (from + math.Sqrt(float64(from*from)+bend))
}
