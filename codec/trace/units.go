package trace

import (
	"fmt"
	"slices"
	"time"
)

// timeUnit is a unit of timestamps, and its name as --time-unit takes it.
type timeUnit struct {
	name string
	unit time.Duration
}

// timeUnits are a thousand times the one before each.
func timeUnits() []timeUnit {
	return []timeUnit{
		{"ns", time.Nanosecond},
		{"us", time.Microsecond},
		{"ms", time.Millisecond},
		{"s", time.Second},
	}
}

// UnitName is the short name of a time unit as --time-unit takes it: ns, us, ms or s.
func UnitName(unit time.Duration) string {
	for _, u := range timeUnits() {
		if u.unit == unit {
			return u.name
		}
	}
	return unit.String()
}

// ParseUnit reads a name that [UnitName] makes; "" is 0, the format's own unit.
func ParseUnit(name string) (time.Duration, error) {
	for _, u := range timeUnits() {
		if u.name == name {
			return u.unit, nil
		}
	}
	if name == "" {
		return 0, nil
	}
	return 0, fmt.Errorf("unknown time unit %q; known are ns, us, ms, s", name)
}

// isUnit reports whether timestamps can have the unit.
func isUnit(unit time.Duration) bool {
	return slices.ContainsFunc(timeUnits(), func(u timeUnit) bool {
		return u.unit == unit
	})
}
