package merge

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/shard"
)

// The files that a shard leaves behind besides those of a run.
const (
	FileName = "shard.json" // a File
	// PlannedNextName has the records of what the next shard was to send, in case that it is lost; the last one's next
	// is 0. They are as in requests.jsonl, with the outcome not_sent, in the plan's order.
	PlannedNextName = "planned_next.jsonl.zst"
	// DigestsName has 48 bytes of each of this shard's requests, in the plan's order. They are its number in the whole
	// plan, its planned instant (8 bytes each, little endian), and its SHA-256.
	DigestsName = "digests.bin"
	// SealName has the SHA-256 of each file here from which a merge takes facts, but for the records, which
	// summary.json has. "" = there is no such file.
	SealName = "seal.json"
)

// Names are those files.
func Names() []string { return []string{FileName, PlannedNextName, DigestsName, SealName} }

// mostSealed bounds a file of which SealName has a digest, in bytes: digests of 300M requests.
const mostSealed = 16 << 30

// Seal writes SealName. All other files of the shard must have been written.
func Seal(dir string) error {
	all, err := sealOf(dir)
	if err != nil {
		return err
	}
	return report.WriteJSON(filepath.Join(dir, SealName), all)
}

// sealOf is what SealName is to have.
func sealOf(dir string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range []string{FileName, report.PlanName, report.SummaryName, report.HistogramsName, PlannedNextName,
		DigestsName} {
		file, err := report.Open(filepath.Join(dir, name), mostSealed)
		if errors.Is(err, fs.ErrNotExist) {
			all[name] = ""
			continue
		}
		if err != nil {
			return nil, err
		}
		h := sha256.New()
		_, err = io.Copy(h, file)
		_ = file.Close()
		if err != nil {
			return nil, err
		}
		all[name] = hashText(h)
	}
	return all, nil
}

// killed is what else may have happened to a shard whose seal does not fit: files are sealed after they are written.
const killed = " leave the directory out if the shard was killed, or its disk was full, as it began or ended"

// checkSeal returns an error if a file is not as its run wrote it.
func checkSeal(dir string) error {
	var said map[string]string
	err := report.ReadJSON(filepath.Join(dir, SealName), &said)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no %s, without which nobody knows whether its %s was edited; bring it back, or%s",
			dir, SealName, FileName, killed)
	}
	if err != nil {
		return err
	}
	is, err := sealOf(dir)
	if err != nil {
		return err
	}
	for name, digest := range is {
		if said[name] != digest {
			return fmt.Errorf("%s has another digest in its %s: was it edited, or is it of another run? Bring it "+
				"back, or%s", filepath.Join(dir, name), SealName, killed)
		}
	}
	return nil
}

// Schema is the version of shard.json.
const Schema = 2

// File is shard.json: what a shard knows of itself. It is written before the start, and again at the end.
type File struct {
	Schema   int              `json:"schema"`
	Index    int              `json:"index"`    // from 0
	Count    int              `json:"count"`    // shards of the load
	Version  string           `json:"version"`  // of fastreplay
	Identity string           `json:"load"`     // SHA-256 of the whole load as planned, "sha256:…": equal in all shards
	Requests int64            `json:"requests"` // of this shard
	Workload metrics.Workload `json:"workload"` // the whole load, as summary.json has it; without a fingerprint
	Load     metrics.Load     `json:"size"`     // of the whole load, as run.json has it

	StartAt time.Time `json:"start_at"` // the agreed instant 0, by the clock of shard 0
	LateNS  int64     `json:"late_ns"`  // how much later than the agreed start this shard was ready; 0 = in time
	// when it had asked the servers all that it asks before a run, since the agreed start; below 0: before it
	ReadyNS int64 `json:"ready_ns"`
	// of shard 0: from when until when the servers' metrics count, ns since the agreed start; null if nobody reads them
	Counted *[2]int64 `json:"counted"`
	// by how much this shard moved its start to follow the clock of shard 0: its offset then
	StartNS int64 `json:"start_ns"`
	// this machine's clock against that of shard 0, before, during and after the run; null if nobody could be asked
	Clock    []shard.Offset `json:"clock"`
	ClockErr string         `json:"clock_err"` // why it was not measured; "" if it was

	Routing *route.Oracle `json:"routing,omitempty"` // of shard 0: hits of the whole load by who routes, as planned
}
