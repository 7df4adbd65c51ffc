package merge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/report"
)

// damaged is a good set of two whole shards of 60 requests each, which a world damages: shard 0 has plain records,
// shard 1 compressed ones.
type damaged struct {
	t    *testing.T
	dirs [2]string
}

func newDamaged(t *testing.T) *damaged {
	parts := load(5, 120, 2)
	return &damaged{t, [2]string{write(t, parts, 0, 120, true), write(t, parts, 1, 120, true)}}
}

func (d *damaged) file(k int, name string) string { return filepath.Join(d.dirs[k], name) }

func (d *damaged) must(err error) {
	d.t.Helper()
	must.Do(d.t, err)
}

func (d *damaged) read(k int, name string) []byte {
	d.t.Helper()
	return must.Have(os.ReadFile(d.file(k, name)))(d.t)
}

func (d *damaged) remove(k int, name string) {
	d.t.Helper()
	d.must(os.Remove(d.file(k, name)))
}

// noRecords removes the records of a shard.
func (d *damaged) noRecords(k int) { d.must(os.Remove(report.RecordsName(d.dirs[k]))) }

// lines are those of the records of a shard, and setLines puts others in their place.
func (d *damaged) lines(k int) [][]byte {
	text, err := os.ReadFile(report.RecordsName(d.dirs[k]))
	d.must(err)
	if k == 1 {
		in, err := zstd.NewReader(nil)
		d.must(err)
		text, err = in.DecodeAll(text, nil)
		d.must(err)
	}
	return bytes.SplitAfter(bytes.TrimSpace(text), []byte("\n"))
}

func (d *damaged) setLines(k int, lines ...[]byte) {
	text := append(bytes.Join(lines, nil), '\n')
	if k == 1 {
		out, err := zstd.NewWriter(nil)
		d.must(err)
		text = out.EncodeAll(text, nil)
	}
	d.must(os.WriteFile(report.RecordsName(d.dirs[k]), text, 0o644))
}

// seal makes both directories such as whoever edits on purpose leaves: edits alone are refused (TestEditedFacts).
func (d *damaged) seal() {
	for _, dir := range d.dirs {
		_ = Seal(dir) // which a file that is none has not
	}
}

// edit replaces all of one text in a file by another.
func (d *damaged) edit(k int, name, from, to string) {
	d.t.Helper()
	text := d.read(k, name)
	if !bytes.Contains(text, []byte(from)) {
		d.t.Fatalf("%s has no %q:\n%s", name, from, text[:min(len(text), 3000)])
	}
	d.put(k, name, bytes.ReplaceAll(text, []byte(from), []byte(to)))
}

// set changes keys of shard.json.
func (d *damaged) set(k int, values map[string]string) {
	var all map[string]any
	d.must(json.Unmarshal(d.read(k, FileName), &all))
	for key, value := range values {
		at := all
		if a, b, nested := strings.Cut(key, "."); nested {
			at, key = all[a].(map[string]any), b
		}
		at[key] = json.RawMessage(value)
	}
	d.put(k, FileName, must.Have(json.Marshal(all))(d.t))
}

func (d *damaged) both(values map[string]string) {
	d.set(0, values)
	d.set(1, values)
}

func (d *damaged) put(k int, name string, text []byte) {
	d.must(os.WriteFile(d.file(k, name), text, 0o644))
}

// editRecord replaces the first of one text in a record of shard 0 by another.
func (d *damaged) editRecord(from, to string) {
	l := d.lines(0)
	l[7] = bytes.Replace(l[7], []byte(from), []byte(to), 1)
	d.setLines(0, l...)
}

// place puts something else in the place of a file.
func (d *damaged) place(k int, name string, make func(path string) error) {
	d.must(os.RemoveAll(d.file(k, name)))
	d.must(make(d.file(k, name)))
}

func fifo(path string) error    { return syscall.Mkfifo(path, 0o644) }
func endless(path string) error { return os.Symlink("/dev/zero", path) }
func loop(path string) error    { return os.Symlink(path, path) }
func folder(path string) error  { return os.Mkdir(path, 0o755) }

// TestWorlds: whatever became of the directories of shards after their runs, a merge is right, is INVALID and names the
// shard, its file and the numbers, or is refused in one line. It never panics, hangs, or takes memory without bound.
func TestWorlds(t *testing.T) {
	t.Parallel()
	const invalid, refused = "INVALID", "refused"
	for _, world := range []struct {
		what   string
		damage func(d *damaged)
		ends   string // "" = valid
		says   []string
	}{
		{"nothing", func(*damaged) {}, "", nil},
		{"records in another order", func(d *damaged) { l := d.lines(0); l[3], l[4] = l[4], l[3]; d.setLines(0, l...) }, "", nil},
		{"plain records were compressed", func(d *damaged) {
			l := d.lines(1)
			d.noRecords(1)
			d.put(1, report.RequestsName, append(bytes.Join(l, nil), '\n'))
		}, "", nil},
		{"a version without checksums", func(d *damaged) { d.edit(0, report.SummaryName, `"records":`, `"unknown":`) }, "", nil},

		{"half of the records", func(d *damaged) { d.setLines(0, d.lines(0)[:30]...) }, invalid, []string{"shard 0: ", "requests.jsonl has 30 of the 60 records that the run wrote"}},
		{"half of them, without checksums", func(d *damaged) {
			d.edit(0, report.SummaryName, `"records":`, `"unknown":`)
			d.setLines(0, d.lines(0)[:30]...)
		}, invalid, []string{"shard 0: ", "requests.jsonl has 30 of the 60 records that the run wrote"}},
		{"no records", func(d *damaged) { d.noRecords(0) }, invalid, []string{"shard 0: ", " has 0 of the 60 records"}},
		{"no compressed records", func(d *damaged) { d.noRecords(1) }, invalid, []string{"shard 1: ", " has 0 of the 60 records"}},
		{"empty records", func(d *damaged) { d.put(0, report.RequestsName, nil) }, invalid, []string{"shard 0: ", " has 0 of the 60 records"}},
		{"a cut frame", func(d *damaged) { d.must(os.Truncate(report.RecordsName(d.dirs[1]), 900)) }, invalid, []string{"shard 1: ", "requests.jsonl.zst has", "of the 60 records"}},
		{"50 doubled", func(d *damaged) {
			l := d.lines(0)
			d.setLines(0, append(l, append([][]byte{[]byte("\n")}, l[:50]...)...)...)
		}, invalid,
			[]string{"shard 0: ", "has 110 records, and the run wrote 60", "50 records of requests that have one already"}},
		{"50 of the other shard, too", func(d *damaged) {
			d.setLines(1, append(append(d.lines(1), []byte("\n")), d.lines(0)[:50]...)...)
		}, invalid, []string{"shard 1: ", "has 110 records, and the run wrote 60", "50 records of requests that have one already"}},
		{"30 of the other shard instead", func(d *damaged) { d.setLines(1, append(d.lines(1)[:30], d.lines(0)[:30]...)...) }, invalid,
			[]string{"shard 1: ", "has 60 records, but others than the run wrote", "30 records of requests that have one already"}},
		{"edited", func(d *damaged) { d.editRecord(`"sent_ns":`, `"sent_ns":1`) }, invalid, []string{"shard 0: ", "has 60 records, but others than the run wrote"}},
		{"records and summary of the other shard", func(d *damaged) {
			d.put(1, report.SummaryName, d.read(0, report.SummaryName))
			d.setLines(1, d.lines(0)...)
			d.remove(1, DigestsName) // or it is refused
			d.put(1, report.HistogramsName, d.read(0, report.HistogramsName))
		}, invalid, []string{"60 records of requests that have one already"}},
		{"of another load", func(d *damaged) { d.editRecord(`"request_id":"run-0`, `"request_id":"run-9`) }, invalid, []string{"shard 0: ", "1 record of no request of the load"}},

		{"a killed shard", func(d *damaged) {
			d.remove(1, report.SummaryName)
			d.setLines(1, d.lines(1)[:20]...)
		}, invalid, []string{"shard 1 ended before its run did", "40 requests of theirs were not sent"}},
		{"a killed shard, without records", func(d *damaged) {
			d.remove(1, report.SummaryName)
			d.noRecords(1)
		}, invalid, []string{"shard 1 ended before its run did", "60 requests of theirs were not sent"}},
		{"a killed shard with doubled records", func(d *damaged) {
			d.remove(1, report.SummaryName)
			l := d.lines(1)
			d.setLines(1, append(l[:20], l[:20]...)...)
		}, invalid, []string{"shard 1 ended before its run did", "20 records of requests that have one already", "40 requests of theirs"}},
		{"a killed shard whose plan was edited", func(d *damaged) {
			d.put(0, PlannedNextName, append(d.lines(1)[0], '\n'))
			d.remove(1, report.SummaryName)
			d.noRecords(1)
		}, refused, []string{PlannedNextName, "is no request that was to be sent"}},

		{"histograms of random bytes", func(d *damaged) { d.put(0, report.HistogramsName, []byte("\x93\x17\xf0\x00 random\nbytes\xff\n,,,\n")) }, refused, []string{"shard-0/histograms.hlog", "not a histogram"}},
		{"an empty histogram file", func(d *damaged) { d.put(0, report.HistogramsName, nil) }, refused, []string{"shard-0/histograms.hlog", "not a log of histograms"}},
		{"no histogram file", func(d *damaged) { d.remove(0, report.HistogramsName) }, refused, []string{"shard-0/histograms.hlog"}},
		{"histograms of the other shard", func(d *damaged) {
			d.setLines(0, d.lines(0)...)
			text := d.read(0, report.HistogramsName)
			d.put(1, report.HistogramsName, append(text, text[bytes.Index(text, []byte("Tag=itl")):]...))
		}, refused, []string{"shard 1: ", "gaps between token chunks of http://one, and the run counted"}},
		{"edited digests", func(d *damaged) {
			text := d.read(0, DigestsName)
			text[120] ^= 1
			d.put(0, DigestsName, text)
		}, refused, []string{"shard 0: ", "digests.bin does not have what the run wrote"}},
		{"cut digests", func(d *damaged) { d.must(os.Truncate(d.file(1, DigestsName), 480)) }, refused, []string{"no shard has the digest of request", DigestsName}},

		{"9e18 requests", func(d *damaged) { d.both(map[string]string{"workload.requests": "9000000000000000000"}) }, refused, []string{"shard.json"}},
		{"2 billion requests", func(d *damaged) { d.both(map[string]string{"workload.requests": "2000000000"}) }, refused, []string{"were to send 120 requests together, and the load has 2,000,000,000"}},
		{"-5 requests", func(d *damaged) { d.both(map[string]string{"workload.requests": "-5"}) }, refused, []string{"shard.json", "-5 requests"}},
		{"-5 requests of a shard", func(d *damaged) { d.set(1, map[string]string{"requests": "-5"}) }, refused, []string{"shard-1/shard.json", "-5 of 120"}},
		{"other requests", func(d *damaged) { d.set(1, map[string]string{"workload.requests": "121"}) }, refused, []string{"number of requests is 120 in one, and 121"}},
		{"the same shard twice", func(d *damaged) { d.dirs[1] = d.dirs[0] }, refused, []string{"are both shard 0 of 2"}},
		{"another version", func(d *damaged) { d.set(1, map[string]string{"version": `"w"`}) }, refused, []string{"the version of fastreplay is v in one, and w"}},
		{"another load", func(d *damaged) { d.set(1, map[string]string{"load": `"sha256:2"`}) }, refused, []string{"the load (trace, flags or servers) is sha256:1"}},
		{"another start", func(d *damaged) { d.set(1, map[string]string{"start_at": `"2026-01-02T03:04:06Z"`}) }, refused, []string{"the agreed start is"}},
		{"another number of shards", func(d *damaged) { d.set(1, map[string]string{"count": "3"}) }, refused, []string{"the number of shards is 2 in one, and 3"}},
		{"another schema", func(d *damaged) { d.both(map[string]string{"schema": "9"}) }, refused, []string{"this version reads schema 2"}},
		{"no shard's directory", func(d *damaged) { d.dirs[1] = d.t.TempDir() }, refused, []string{"is no directory of a shard"}},
		{"2e9 shards", func(d *damaged) { d.both(map[string]string{"count": "2000000000"}) }, refused, []string{"at most 10000 shards"}},
		{"an offset of 2^63", func(d *damaged) {
			d.set(1, map[string]string{"clock": `[{"at_ns":0,"offset_ns":-9223372036854775808,"error_ns":5}]`})
		}, refused, []string{"shard-1/shard.json"}},
		{"an offset of a week", func(d *damaged) {
			d.set(1, map[string]string{"clock": `[{"at_ns":0,"offset_ns":604800000000000,"error_ns":5}]`})
		}, refused, []string{"shard-1/shard.json", "a clock that was"}},
		{"an instant near 2^63", func(d *damaged) { d.editRecord(`"planned_ns":`, `"planned_ns":9223372036854775807,"was":`) }, refused, []string{"requests.jsonl:8: not a record: planned_ns is 9223372036854775807"}},
		{"a sum of seconds beyond all", func(d *damaged) { d.edit(0, report.SummaryName, `"cpu_s": 0`, `"cpu_s": 1e308`) }, refused, []string{"shard-0/summary.json has a number above"}},
		{"a number that is none", func(d *damaged) { d.edit(0, report.SummaryName, `"cpu_s": 0`, `"cpu_s": NaN`) }, refused, []string{"shard-0/summary.json"}},
		{"deep JSON", func(d *damaged) { d.put(0, report.SummaryName, bytes.Repeat([]byte(`{"a":[`), 1<<20)) }, refused, []string{"shard-0/summary.json"}},
		{"deep JSON in a record", func(d *damaged) {
			d.setLines(0, append([]byte(`{"row":1,"outcome":"ok","x":`), bytes.Repeat([]byte(`[`), 1<<20)...))
		}, refused, []string{"requests.jsonl:1"}},
		{"a giant line", func(d *damaged) { d.put(0, report.RequestsName, bytes.Repeat([]byte("a"), 17<<20)) }, refused, []string{"requests.jsonl:1", "longer than"}},
		{"a giant summary", func(d *damaged) { d.must(os.Truncate(d.file(0, report.SummaryName), 1<<40)) }, refused, []string{"shard-0/summary.json has 1099511627776 bytes"}},
		{"a sparse file of records", func(d *damaged) { d.must(os.Truncate(d.file(0, report.RequestsName), 1<<40)) }, refused, []string{"requests.jsonl:61", "longer than"}},
		{"a garbage shard.json", func(d *damaged) { d.put(1, FileName, []byte("\x00\x01")) }, refused, []string{"shard-1/shard.json"}},
		{"a record is missing, and the summary agrees", func(d *damaged) {
			d.setLines(0, d.lines(0)[:59]...)
			d.edit(0, report.SummaryName, `"records":`, `"unknown":`)
			d.edit(0, report.SummaryName, `"planned": 60`, `"planned": 59`)
		}, invalid, []string{"shard 0: ", "requests.jsonl has 59 of the 60 records that its shard.json promises"}},
		{"a run.json without servers", func(d *damaged) { d.edit(0, report.PlanName, `"targets":`, `"was":`) }, refused, []string{"shard-0/run.json", url}},
		{"servers that are not the records'", func(d *damaged) { d.edit(1, report.PlanName, url, "http://other") }, refused, []string{"shard-1/run.json", "http://other"}},
		{"a lost shard of other servers", func(d *damaged) {
			d.remove(1, report.SummaryName)
			d.edit(1, report.PlanName, url, "http://other")
		}, refused, []string{"not of one run: the servers", "http://other"}},
		{"no run.json", func(d *damaged) { d.remove(1, report.PlanName) }, refused, []string{"shard-1 has no run.json"}},
	} {
		t.Run(world.what, func(t *testing.T) {
			t.Parallel()
			d := newDamaged(t)
			world.damage(d)
			d.seal()
			checkWorld(t, d, world.ends, world.says)
		})
	}
}

// TestStrangeFiles: what is no file is refused in the place of each file that a merge reads.
func TestStrangeFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{FileName, report.PlanName, report.SummaryName, report.RequestsName, report.HistogramsName, DigestsName, report.ServerMetricsName} {
		for what, make := range map[string]func(string) error{"pipe": fifo, "/dev/zero": endless, "symlink loop": loop, "directory": folder} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				d := newDamaged(t)
				d.place(0, name, make)
				checkWorld(t, d, "refused", []string{name})
			})
		}
	}
}

// checkWorld merges, and compares the end with what it is to be: "", INVALID or refused.
func checkWorld(t *testing.T, d *damaged, ends string, says []string) {
	t.Helper()
	said := make(chan string, 1)
	go func() { said <- mergedWords(t, d) }()
	var got string
	select {
	case got = <-said:
	case <-time.After(2 * time.Minute): // as after a hang
		t.Fatal("the merge does not end")
	}
	if prefix := ends + ":"; !strings.HasPrefix(got, prefix) {
		t.Errorf("%s; want %q", got, ends)
	}
	for _, want := range says {
		expect.Contains(t, got, want)
	}
	if strings.Contains(got, "\n") || len(got) > 1000 {
		t.Errorf("more than a line: %.2000s", got)
	}
}

// mergedWords is how a merge ends, in words.
func mergedWords(t *testing.T, d *damaged) string {
	out := t.TempDir()
	s, err := Open(d.dirs[:])
	if err != nil {
		return "refused:" + err.Error()
	}
	sum, err := s.Write(out, new(atomic.Int64))
	if err != nil {
		return "refused:" + err.Error()
	}
	if !sum.Verdict.Valid {
		return fmt.Sprint("INVALID:", sum.Verdict.Reasons)
	}
	if sum.Requests.Planned != 120 || *sum.Records != *must.Have(report.Load(out))(t).Records {
		return fmt.Sprintf("wrong: %+v", sum.Requests)
	}
	return ":"
}

// TestSpillIsClosed: a merge that fails leaves no file open.
func TestSpillIsClosed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files are counted in /proc")
	}
	d := newDamaged(t)
	d.setLines(0, []byte("no record"))
	out := t.TempDir()
	s, err := Open(d.dirs[:])
	d.must(err)
	if _, err := s.Write(out, new(atomic.Int64)); err == nil {
		t.Fatal("merged")
	}
	open, err := os.ReadDir("/proc/self/fd")
	d.must(err)
	for _, e := range open {
		if to, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); strings.HasPrefix(to, out) {
			t.Errorf("%s is still open", to)
		}
	}
}

// FuzzMerge: whatever stands in a file of a shard, the shards are merged or refused; nothing panics.
func FuzzMerge(f *testing.F) {
	names := []string{FileName, report.PlanName, report.SummaryName, report.RequestsName, report.HistogramsName, DigestsName}
	parts := load(5, 30, 2)
	dirs := []string{writeTo(f, f.TempDir(), parts, 0, 30, true), writeTo(f, f.TempDir(), parts, 1, 30, true)}
	good := map[string][]byte{}
	for i, name := range names {
		text := must.Have(os.ReadFile(filepath.Join(dirs[0], name)))(f)
		good[name] = text
		f.Add(byte(i), text)
		f.Add(byte(i), bytes.Repeat([]byte(`[{"a":`), 1000))
	}
	f.Add(byte(0), bytes.ReplaceAll(good[FileName], []byte(`:30`), []byte(`:9000000000000000000`)))
	f.Add(byte(2), bytes.ReplaceAll(good[report.SummaryName], []byte(`: 0`), []byte(`: -9000000000000000000`)))
	f.Add(byte(2), bytes.ReplaceAll(good[report.SummaryName], []byte(`: 0`), []byte(`: 1e29`)))
	f.Fuzz(func(t *testing.T, which byte, content []byte) {
		dir := t.TempDir()
		for name, text := range good {
			if name == names[int(which)%len(names)] {
				text = content
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
		}
		s, err := Open([]string{dir, dirs[1]})
		if err == nil {
			_, err = s.Write(t.TempDir(), new(atomic.Int64))
		}
		if err != nil && err.Error() == "" {
			t.Error("refused without a word")
		}
	})
}
