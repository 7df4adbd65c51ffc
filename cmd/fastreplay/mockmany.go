package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/bench/mockllm"
)

// maxMockInstances bounds --instances, so that a typing mistake does not take every port.
const maxMockInstances = 1000

// mockInstance stands for a server's number in --header, --body-field and --log.
const mockInstance = "{instance}"

func (o *mockOptions) checkInstances() error {
	switch {
	case o.instances < 1 || o.instances > maxMockInstances:
		return fmt.Errorf("mock: --instances %d: want 1 to %d", o.instances, maxMockInstances)
	case o.instances > 1 && o.logFile != "" && !strings.Contains(o.logFile, mockInstance):
		return fmt.Errorf("mock: --log %s: every server has a log of its own; write {instance} into the name, such as log-{instance}.jsonl", o.logFile)
	}
	return nil
}

// configs makes the configuration of each server, and opens its log. closeLogs is good even after an error.
func (o *mockOptions) configs() (configs []mockllm.Config, closeLogs func(), err error) {
	var files []*os.File
	closeLogs = func() {
		for _, f := range files {
			f.Close()
		}
	}
	for i := range o.instances {
		cfg := o.cfg
		cfg.Instance = i
		switch o.logFile {
		case "":
		case "-":
			cfg.Log = os.Stderr
		default:
			f, err := os.OpenFile(strings.ReplaceAll(o.logFile, mockInstance, strconv.Itoa(i)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
			if err != nil {
				return nil, closeLogs, fmt.Errorf("mock: --log: %w", err)
			}
			files = append(files, f)
			cfg.Log = f
		}
		configs = append(configs, cfg)
	}
	return configs, closeLogs, nil
}

// startServers makes all servers listen, writes --targets-file, and then says where they are.
func (o *mockOptions) startServers(servers []*mockllm.Server, stdout io.Writer) error {
	var targets, lines bytes.Buffer
	for i, srv := range servers {
		ln, err := o.listenAt(i)
		if err != nil {
			return err
		}
		if err := srv.Start(ln); err != nil {
			return errors.Join(err, ln.Close())
		}
		fmt.Fprintln(&targets, srv.URL())
		fmt.Fprintf(&lines, "listening on %s\n", srv.URL())
	}
	if o.targetsFile != "" {
		if err := os.WriteFile(o.targetsFile, targets.Bytes(), 0o644); err != nil {
			return fmt.Errorf("mock: --targets-file: %w", err)
		}
	}
	_, err := lines.WriteTo(stdout)
	return err
}

// listenAt opens the port of server i: the one of --listen and those after it, or free ones.
func (o *mockOptions) listenAt(i int) (net.Listener, error) {
	address := o.listen
	if host, port, err := net.SplitHostPort(address); err == nil && i > 0 {
		if n, err := net.LookupPort("tcp", port); err == nil && n > 0 {
			address = net.JoinHostPort(host, strconv.Itoa(n+i))
		}
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("mock: --listen %s: %w", address, err)
	}
	return ln, nil
}

// closeServers ends all servers, started or not.
func (o *mockOptions) closeServers(servers []*mockllm.Server) error {
	var errs []error
	for _, srv := range servers {
		if err := srv.Close(); err != nil {
			errs = append(errs, fmt.Errorf("mock: --log %s: %w", o.logFile, err))
		}
	}
	return errors.Join(errs...)
}
