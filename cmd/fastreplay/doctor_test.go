package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/doctor"
)

// TestDiagnosisFits: a check is a line, its remedy another, none wider than 80 columns; colour changes no words.
func TestDiagnosisFits(t *testing.T) {
	d := doctor.Diagnosis{Conclusion: "Good for medians."}
	for _, grade := range []doctor.Grade{doctor.Poor, doctor.Bad} {
		d.Checks = append(d.Checks, doctor.Check{Name: "real-time priority", Grade: grade, Found: "refused: operation not permitted", Remedy: "sudo setcap cap_sys_nice+ep FILE, or docker run --cap-add SYS_NICE"})
	}
	plain, colours := diagnosis(&d, false), diagnosis(&d, true)
	for line := range strings.Lines(plain) {
		if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	expect.Equal(t, strings.Count(plain, "\n"), 2*len(d.Checks)+2, "lines for %d checks", len(d.Checks)) // all have remedies
	if got := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(colours, ""); got != plain || got == colours {
		t.Errorf("colour changes words: %q", got)
	}
}

// TestDoctor measures this machine: the JSON has a check of each kind, and waits end late, never early.
func TestDoctor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 3 s")
	}
	code, out, said := ran(t, "doctor", "--json")
	must.Equal(t, code, exitOK, "exit code: %s", said)
	var got doctor.Diagnosis
	must.Do(t, json.Unmarshal([]byte(out), &got))
	for _, name := range []string{"punctuality", "cores", "real-time priority", "sleeps", "open files", "send buffer"} {
		if !slices.ContainsFunc(got.Checks, func(c doctor.Check) bool { return c.Name == name }) {
			t.Errorf("no check %q in %s", name, out)
		}
	}
}
