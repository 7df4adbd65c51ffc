package main

import (
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/engine/setup"
)

// TestIdleCapForms reads each form of --idle-cap, and refuses what is none.
func TestIdleCapForms(t *testing.T) {
	for text, want := range map[string]setup.IdleCap{
		"10s":                    {Most: 10 * time.Second},
		"10":                     {Most: 10 * time.Second},
		"system=10s":             {Most: 10 * time.Second, System: true},
		"tree=300s":              {Tree: 300 * time.Second},
		"tree=300s,system=10s":   {Most: 10 * time.Second, System: true, Tree: 300 * time.Second},
		"system=10s,tree=5m":     {Most: 10 * time.Second, System: true, Tree: 300 * time.Second},
		"":                       {},
		"0s":                     {},
		"tree=0":                 {},
		"10s,20s":                {},
		"10s,tree=20s":           {},
		"system=1s,system=2s":    {},
		"system=tree=1s":         {},
		"tree=1s,":               {},
		"tree=1s,tree=2s":        {},
		"tree=1s,system=1s,tree": {},
	} {
		got, err := parseIdleCap(text)
		if refuse := want == (setup.IdleCap{}); refuse != (err != nil) || !refuse && got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
}
