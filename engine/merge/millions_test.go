package merge

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/report"
)

// TestMillions measures a merge of FASTREPLAY_RECORDS records of four shards: its time, and the most memory. On two
// busy cores 10 million took 174 s and 1,209 MB, 5 million 67 s and 1,208 MB, 2.5 million 35 s and 846 MB:
// FASTREPLAY_RECORDS=10000000 go test ./engine/merge -run TestMillions -v -timeout 1h
func TestMillions(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("FASTREPLAY_RECORDS"))
	if err != nil {
		t.Skip("FASTREPLAY_RECORDS is not set")
	}
	const shards = 4
	small := load(1, 40*shards, shards)
	var dirs []string
	for i := range shards {
		dir := write(t, small, i, n, true)
		if err := os.Remove(filepath.Join(dir, report.RequestsName)); err != nil && i%2 == 0 {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(dir, report.RequestsName+".zst"))
		_ = os.Remove(filepath.Join(dir, "digests.bin")) // of the small load
		w := must.Have(report.NewWriter(dir, report.WriterOptions{Compress: true}))(t)
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		for k := i; k < n; k += shards {
			r := answered(rng, planned(rng, k))
			if r.Outcome == record.OK { // in order of completion
				r.FirstTokenNS = r.SentNS + 1 + rng.Int64N(1e5)
				r.LastTokenNS, r.DoneNS = r.FirstTokenNS+1e5, r.FirstTokenNS+1e5
			}
			if w.Append(&r); k/shards%1000 == 0 {
				must.Do(t, w.Flush())
			}
		}
		must.Have(w.Close())(t)
		sum := must.Have(report.Load(dir))(t)
		sum.Records, sum.Workload.Fingerprint = w.Lines(), ""
		d := &damaged{t, [2]string{dir}}
		d.must(report.WriteSummary(dir, sum))
		d.set(0, "requests", strconv.Itoa(n/shards))
		dirs = append(dirs, dir)
	}
	s := must.Have(Open(dirs))(t)
	before, began := host.UsageNow(), time.Now()
	sum := must.Have(s.Write(t.TempDir(), new(atomic.Int64)))(t)
	used := host.UsageNow()
	t.Logf("%d records in %v, %d MB at most (%d MB before)", n, time.Since(began).Round(time.Millisecond), used.MaxRSSBytes>>20, before.MaxRSSBytes>>20)
	if sum.Requests.Planned != int64(n) || sum.DriftUS.Count != int64(n) || len(sum.Verdict.Reasons) > 0 && sum.Verdict.Reasons[0].Code == "records" {
		t.Errorf("%+v", sum.Requests)
	}
}
