package collect

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// TestLocalServers: what is known of servers on the client's machine is said, and no more. The run takes 10 s.
func TestLocalServers(t *testing.T) {
	t.Parallel()
	const shares = "the server shares this machine with the client (pid 4711, vllm): "
	const unread = "a server's address is the client's own machine's, and how long it waited for a core is unknown, since its process could not be read to the end ([::1]:8000)"
	for _, tt := range []struct {
		name string
		demo bool
		of   *stats.LocalServers
		want []string
	}{
		{"none", false, nil, nil},
		{"one that waited", false, &stats.LocalServers{Processes: "pid 4711, vllm", WaitedS: new(1.2)}, []string{shares + "it waited at least 1.20 s for a core, so its latencies are those of a busy machine"}},
		{"one that hardly waited", false, &stats.LocalServers{Processes: "pid 4711, vllm", WaitedS: new(0.1)}, []string{shares + "it waited at least 100 ms for a core"}},
		{"an unknown wait", false, &stats.LocalServers{Processes: "pid 4711, vllm"}, []string{shares + "how long it waited for a core is unknown"}},
		{"one that cannot be read", false, &stats.LocalServers{Unknown: "[::1]:8000"}, []string{unread}},
		{"two, one of which cannot be read", false, &stats.LocalServers{Processes: "pid 4711, vllm", WaitedS: new(0.1), Unknown: "[::1]:8000"}, []string{shares + "it waited at least 100 ms for a core", unread}},
		{"our own", true, &stats.LocalServers{Processes: "pid 4711, vllm", WaitedS: new(1.2)}, nil},
	} {
		s := &metrics.Summary{Run: metrics.Run{DurationS: 10}}
		s.Run.Demo, s.Client.LocalServers = tt.demo, tt.of
		expect.List(t, texts(localNotes(s)), tt.want, tt.name)
	}
}
