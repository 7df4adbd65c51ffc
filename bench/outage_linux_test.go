package bench

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestNameWithADeadAddress: of a name's addresses one is dead. It is left out where servers are probed; where it dies
// during the run its requests fail, and the address is named.
func TestNameWithADeadAddress(t *testing.T) {
	asRoot(t, "unshare", "mount")
	command(t, "unshare", "-m", "true")
	t.Parallel()
	const name = "headless.fastreplay.test"
	hosts := newFile(t, "hosts", "127.0.0.1 localhost\n127.0.0.2 "+name+"\n127.0.0.3 "+name+"\n")
	in := []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts}
	command(t, append(append([]string{}, in...), "true")...)
	first := startMock(t, "--listen", "127.0.0.2:0")
	_, port, _ := strings.Cut(strings.TrimPrefix(first.url, "http://"), ":")
	url := "http://" + name + ":" + port
	load := steady(t, lasting, 100, 4)

	r := startReplayIn(t, in, "--trace", load, "--url", url, "--limit", "50").finish(t)
	r.only(t, "ok")
	expect.Contains(t, unwrapped(r.stderr), url+": 1 of 2 addresses refuse connections and are left out")
	expect.Equal(t, r.summary.Endpoints == nil, true, "one address is left")

	second := startMock(t, "--listen", "127.0.0.3:"+port)
	running := startReplayIn(t, in, "--trace", load, "--url", url)
	running.untilRecorded(t, 100, "ok")
	second.kill(t)
	running.untilRecorded(t, 40, "connect_error")
	r = running.endedEarly(t)
	r.prove(t)
	for _, l := range r.lines {
		if !l.ok() && l.Outcome != "not_sent" && l.Endpoint != "127.0.0.3:"+port {
			t.Errorf("row %d to %s is %s", l.Row, l.Endpoint, l.Outcome)
		}
	}
	expect.Contains(t, unwrapped(r.stderr), url+" at 127.0.0.3:"+port+" failed from ", "the dead address is not named:\n%s", r.stderr)
}
