package trace

import (
	"fmt"
	"time"
)

// UnitName is the short name of a time unit as --time-unit takes it: ns, us, ms or s.
func UnitName(unit time.Duration) string {
	switch unit {
	case time.Nanosecond:
		return "ns"
	case time.Microsecond:
		return "us"
	case time.Millisecond:
		return "ms"
	case time.Second:
		return "s"
	}
	return unit.String()
}

// ParseUnit reads a name that [UnitName] makes of a unit; "" is 0, the format's own unit.
func ParseUnit(name string) (time.Duration, error) {
	if name == "" {
		return 0, nil
	}
	for unit := time.Nanosecond; unit <= time.Second; unit *= 1000 {
		if UnitName(unit) == name {
			return unit, nil
		}
	}
	return 0, fmt.Errorf("unknown time unit %q; known are ns, us, ms, s", name)
}
