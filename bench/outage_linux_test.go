package bench

import (
	"path/filepath"
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
	hosts := filepath.Join(t.TempDir(), "hosts")
	writeFile(t, hosts, "127.0.0.1 localhost\n127.0.0.2 "+name+"\n127.0.0.3 "+name+"\n")
	in := []string{"unshare", "-m", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts}
	command(t, append(append([]string{}, in...), "true")...)
	first := startMock(t, "--listen", "127.0.0.2:0")
	_, port, _ := strings.Cut(strings.TrimPrefix(first.url, "http://"), ":")
	url := "http://" + name + ":" + port
	load := steady(t, lasting, 100, 4)

	r := startReplayIn(t, in, filepath.Join(t.TempDir(), "results"), "--trace", load, "--url", url, "--limit", "50").finish(t)
	r.only(t, "ok")
	if !strings.Contains(strings.Join(strings.Fields(r.stderr), " "), url+": 1 of 2 addresses refuse connections and are left out") || r.summary.Endpoints != nil {
		t.Errorf("the dead address is not left out:\n%s", r.stderr)
	}

	second := startMock(t, "--listen", "127.0.0.3:"+port)
	running := startReplayIn(t, in, filepath.Join(t.TempDir(), "results"), "--trace", load, "--url", url)
	until(t, "some requests have ended", func() bool { return running.recorded(t, "ok") >= 100 })
	second.kill(t)
	until(t, "some requests have failed", func() bool { return running.recorded(t, "connect_error") >= 40 })
	r = running.endedEarly(t)
	r.prove(t)
	for _, l := range r.lines {
		if !l.ok() && l.Outcome != "not_sent" && l.Endpoint != "127.0.0.3:"+port {
			t.Errorf("row %d to %s is %s", l.Row, l.Endpoint, l.Outcome)
		}
	}
	expect.Contains(t, strings.Join(strings.Fields(r.stderr), " "), url+" at 127.0.0.3:"+port+" failed from ", "the dead address is not named:\n%s", r.stderr)
}
