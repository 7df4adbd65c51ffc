// Package actions runs commands of the user's at instants of a run, such as one that kills a server, and keeps what
// became of them.
//
// It does not know what a command changed: collect tells that from the requests. Its goroutines send nothing, and a
// command has a process group, a low priority and a time limit of its own. Nobody waits for it before the run's end.
//
// The package is not an API: any release may change it.
package actions

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Action is a shell command that runs at an instant of a run.
type Action struct {
	At      time.Duration // since the start of the run
	Every   time.Duration // from one time to the next; 0 = it runs once
	Run     string        // the command, for sh -c
	Undo    string        // runs at the end if the command ever began; "" = nothing
	Expect  string        // succeeds once the command has taken effect, and not before; "" = nobody knows
	Timeout time.Duration // of the command, and of Expect to succeed
}

// Bounds of what users ask for.
const (
	usualTimeout = time.Minute
	leastEvery   = time.Second
	mostActions  = 64
	mostFile     = 1 << 20 // bytes
)

// Parse reads values of --at: TIME=COMMAND, or the name of a file that lists actions.
func Parse(values []string) (all []Action, err error) {
	for _, value := range values {
		more := make([]Action, 1)
		at, command, isCommand := strings.Cut(value, "=")
		if isCommand {
			more[0].Run = command
			more[0].At, err = time.ParseDuration(strings.TrimSpace(at))
		}
		if !isCommand || err != nil { // whose name may have a "="
			more, err = readFile(value)
		}
		if err != nil {
			return nil, fmt.Errorf("--at: %w; want TIME=COMMAND, such as 5m='kubectl delete pod llm-3', or a file", err)
		}
		all = append(all, more...)
	}
	for i := range all {
		if err := all[i].complete(); err != nil {
			return nil, fmt.Errorf("--at: action %d, %q: %w", i+1, all[i].Run, err)
		}
	}
	if len(all) > mostActions {
		return nil, fmt.Errorf("--at: %d actions; want at most %d", len(all), mostActions)
	}
	return all, nil
}

// listed is an action as a file has it.
type listed struct{ At, Every, Run, Undo, Expect, Timeout string }

// readFile reads a YAML list of actions.
func readFile(name string) (all []Action, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostFile))
	if err != nil {
		return nil, err
	}
	var list []listed
	in := yaml.NewDecoder(bytes.NewReader(text))
	in.KnownFields(true)
	if err := in.Decode(&list); err != nil {
		const want = "want a list of actions with at, every, run, undo, expect and timeout"
		return nil, fmt.Errorf("%s: %s: %w", name, want, err)
	}
	for i, l := range list {
		a := Action{Run: l.Run, Undo: l.Undo, Expect: l.Expect}
		var wrong [3]error
		a.At, wrong[0] = time.ParseDuration(l.At)
		a.Every, wrong[1] = time.ParseDuration(cmp.Or(l.Every, "0s"))
		a.Timeout, wrong[2] = time.ParseDuration(cmp.Or(l.Timeout, "0s"))
		if err := errors.Join(wrong[:]...); err != nil {
			return nil, fmt.Errorf("%s: action %d: %w", name, i+1, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// complete sets what is open, and refuses what no action can mean.
func (a *Action) complete() error {
	a.Timeout = cmp.Or(a.Timeout, usualTimeout)
	switch {
	case strings.TrimSpace(a.Run) == "":
		return errors.New("no command")
	case a.At < 0 || a.Timeout < 0:
		return errors.New("want times of 0 or more")
	case a.Every != 0 && a.Every < leastEvery:
		return fmt.Errorf("every is %v; want at least %v", a.Every, leastEvery)
	}
	return nil
}
