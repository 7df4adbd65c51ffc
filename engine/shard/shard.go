// Package shard lets several machines send one load: each machine plans the whole load and sends a part of it.
//
// It owns how a process learns which part (sched.Part) it is, how the parts agree on a start, and how far their clocks
// are apart. It does not know requests, results or sockets to servers.
//
// Whoever knows the secret of a barrier is trusted, and nobody else is heard. Shards prove it to each other by TLS
// before they say anything. It stands in the barrier's directory, for its owner alone, or in FASTREPLAY_SHARD_SECRET.
// Who can write to that directory is trusted, too. What a shard says is bounded in size and time even so; of flags it
// says keyed digests. Without a secret an address must be loopback, where every user of the machine is trusted.
//
// The package is not an API: any release may change it.
package shard

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/sched"
)

// Auto is the --shard that takes index and count from the scheduler's environment.
const Auto = "auto"

// CountVariable has the count where a scheduler tells only the index.
const CountVariable = "FASTREPLAY_SHARDS"

// mostShards bounds what shard 0 keeps of the others.
const mostShards = 1 << 16

// ParsePart reads INDEX/COUNT, such as 0/16 to 15/16, or auto.
func ParsePart(text string) (sched.Part, error) {
	if text == Auto {
		return fromEnvironment(os.Getenv)
	}
	index, count, _ := strings.Cut(text, "/")
	p, err := newPart(index, count, 0)
	if err != nil {
		return p, fmt.Errorf("%w, such as 0/16 to 15/16, or auto", err)
	}
	return p, nil
}

func newPart(index, count string, first int) (p sched.Part, err error) {
	var errIndex, errCount error
	p.Index, errIndex = strconv.Atoi(index)
	p.Count, errCount = strconv.Atoi(count)
	p.Index -= first
	if errIndex != nil || errCount != nil || p.Index < 0 || p.Count < 1 || p.Count > mostShards || p.Index >= p.Count {
		return sched.Part{},
			fmt.Errorf("want INDEX/COUNT with an index from 0 to below the count, which is at most %d", mostShards)
	}
	return p, nil
}

// fromEnvironment takes the first scheduler of which the index is set.
func fromEnvironment(get func(string) string) (sched.Part, error) {
	for _, s := range []struct {
		name, index, count string
		first              int // the index of the first
	}{
		{"Kubernetes Indexed Job", "JOB_COMPLETION_INDEX", CountVariable, 0},
		{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", 0},
		{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", 0},
		{"MPI (PMI)", "PMI_RANK", "PMI_SIZE", 0},
		{"GNU parallel", "PARALLEL_SEQ", CountVariable, 1},
	} {
		index := get(s.index)
		if index == "" {
			continue
		}
		count := cmp.Or(get(s.count), get(CountVariable))
		if count == "" {
			return sched.Part{},
				fmt.Errorf("%s: %s is %s, but %s is not set: set it to how many shards there are", s.name, s.index,
					index, s.count)
		}
		p, err := newPart(index, count, s.first)
		if err != nil {
			return p, fmt.Errorf("%s: %s is %q and the count %q: %w", s.name, s.index, index, count, err)
		}
		return p, nil
	}
	return sched.Part{},
		errors.New(
			"no scheduler's environment is here (Kubernetes Indexed Job, Slurm, MPI, GNU parallel); give " +
				"INDEX/COUNT, such as 0/16")
}

// Offset is how far this machine's wall clock is ahead of that of shard 0.
type Offset struct {
	AtNS     int64 `json:"at_ns"`     // since the agreed start, by this machine's clock
	OffsetNS int64 `json:"offset_ns"` // above 0: this clock is ahead
	ErrorNS  int64 `json:"error_ns"`  // the true offset is within so much of it
}
