package shard

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/sched"
)

func TestParsePart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]sched.Part{"0/1": {Index: 0, Count: 1}, "3/16": {Index: 3, Count: 16}, "15/16": {Index: 15, Count: 16}} {
		if got, err := ParsePart(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3", "16/16", "-1/4", "a/b", "1/0", "1/2/3", "0/65537", "0/2000000000"} {
		expect.Refused(ParsePart(text))(t, "", text)
	}
}

func TestPartOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		environment map[string]string
		want        sched.Part
		err         string
	}{
		{"Kubernetes", map[string]string{"JOB_COMPLETION_INDEX": "2", CountVariable: "4"}, sched.Part{Index: 2, Count: 4}, ""},
		{"Kubernetes without a count", map[string]string{"JOB_COMPLETION_INDEX": "2"}, sched.Part{}, CountVariable + " is not set"},
		{"Slurm", map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, sched.Part{Index: 0, Count: 8}, ""},
		{"Open MPI", map[string]string{"OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "8"}, sched.Part{Index: 7, Count: 8}, ""},
		{"MPICH", map[string]string{"PMI_RANK": "1", "PMI_SIZE": "2"}, sched.Part{Index: 1, Count: 2}, ""},
		{"GNU parallel counts from 1", map[string]string{"PARALLEL_SEQ": "1", CountVariable: "3"}, sched.Part{Index: 0, Count: 3}, ""},
		{"beyond the count", map[string]string{"SLURM_PROCID": "8", "SLURM_NTASKS": "8"}, sched.Part{}, "Slurm"},
		{"nothing", nil, sched.Part{}, "no scheduler"},
	} {
		got, err := fromEnvironment(func(name string) string { return c.environment[name] })
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
	}
}
