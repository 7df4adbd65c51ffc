package replay_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/fastreplay/fastreplay/bench/mockllm"
	"github.com/fastreplay/fastreplay/engine/replay"
)

// startServer starts something to replay against.
func startServer() *mockllm.Server {
	servers, err := mockllm.NewGroup([]mockllm.Config{{}})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	if err := servers[0].Start(listener); err != nil {
		panic(err)
	}
	return servers[0]
}

func ExampleRun() {
	server := startServer()
	defer server.Close()
	results, err := os.MkdirTemp("", "replay-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(results)

	cfg := replay.Defaults()
	cfg.Traces = []string{"../../bench/samples/mooncake-small.jsonl"}
	cfg.URLs = []string{server.URL()}
	cfg.Output = filepath.Join(results, "run")
	cfg.Read.Limit = 20
	cfg.Pacing.Scale = 10
	summary, err := replay.Run(context.Background(), &cfg, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d planned, %d ok, %s\n", summary.Requests.Planned, summary.Requests.OK, summary.Run.API)
	// Output: 20 planned, 20 ok, completions
}
