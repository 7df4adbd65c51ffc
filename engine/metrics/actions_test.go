package metrics

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestFinding: a command that ended well and left no trace may have made servers slower, so nobody says that it failed.
func TestFinding(t *testing.T) {
	for _, c := range []struct {
		exit  int
		check string
		want  string
	}{
		{0, "", "nothing shows that it landed (an expect that fails before would): no target fails more than before"},
		{0, CheckedEarly, "nothing shows that it landed"},
		{0, CheckFailed, "it did not land: no target"},
		{3, "", "it did not land: exit code 3"},
	} {
		a := Action{Ran: &Command{ExitCode: &c.exit}, Check: c.check, Proof: "no target fails more than before"}
		expect.Contains(t, a.Finding(), c.want)
	}
}
