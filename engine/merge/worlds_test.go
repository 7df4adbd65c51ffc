package merge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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

func (d *damaged) file(k int, name string) string {
	if name == "records" {
		return report.RecordsName(d.dirs[k])
	}
	return filepath.Join(d.dirs[k], name)
}

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
	return slices.Collect(bytes.Lines(text))
}

func (d *damaged) setLines(k int, lines ...[]byte) {
	text := append(bytes.TrimSuffix(bytes.Join(lines, nil), []byte("\n")), '\n')
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

// set changes a key of shard.json.
func (d *damaged) set(k int, key, value string) {
	var all map[string]any
	d.must(json.Unmarshal(d.read(k, FileName), &all))
	at := all
	if a, b, nested := strings.Cut(key, "."); nested {
		at, key = all[a].(map[string]any), b
	}
	at[key] = json.RawMessage(value)
	d.put(k, FileName, must.Have(json.Marshal(all))(d.t))
}

// apply does a line of testdata/worlds.txt: what to do, of which shard, to which file. A file called records is that of
// its records, whatever its name. Behind "records" stand pieces of that file: of which shard, and how many lines from
// its first on.
func (d *damaged) apply(line string) {
	d.t.Helper()
	words := strings.Fields(line)
	k := must.Have(strconv.Atoi(words[1]))(d.t)
	name := words[2]
	before, to, _ := strings.Cut(line, " → ")
	_, from, _ := strings.Cut(before, name+" ")
	switch words[0] {
	case "set":
		key, value, _ := strings.Cut(name, "=")
		d.set(k, key, value)
	case "edit":
		d.edit(k, name, from, to)
	case "record":
		d.editRecord(name, to)
	case "remove":
		d.remove(k, name)
	case "empty":
		d.put(k, name, nil)
	case "copy": // shard 0's
		d.put(k, name, d.read(0, name))
	case "cut":
		d.must(os.Truncate(d.file(k, name), must.Have(strconv.ParseInt(from, 10, 64))(d.t)))
	case "records":
		var lines [][]byte
		for _, piece := range words[2:] {
			shard, n, _ := strings.Cut(piece, ":")
			of := d.lines(must.Have(strconv.Atoi(shard))(d.t))
			lines = append(lines, of[:must.Have(strconv.Atoi(n))(d.t)]...)
		}
		d.setLines(k, lines...)
	default:
		d.t.Fatalf("nobody does %q", line)
	}
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
	const valid, refused = "valid", "refused"
	text := string(must.Have(os.ReadFile("testdata/worlds.txt"))(t))
	for _, world := range strings.Split(text, "\n== ")[1:] {
		damages, says, _ := strings.Cut(world, "\n=> ")
		name, lines, _ := strings.Cut(damages, "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDamaged(t)
			for line := range strings.Lines(lines) {
				d.apply(strings.TrimSuffix(line, "\n"))
			}
			d.seal()
			all := strings.Split(strings.TrimSpace(says), "\n")
			checkWorld(t, d, all[0], all[1:])
		})
	}
	for _, world := range []struct {
		what   string
		damage func(d *damaged)
		ends   string
		says   []string
	}{
		{"records in another order", func(d *damaged) { l := d.lines(0); l[3], l[4] = l[4], l[3]; d.setLines(0, l...) }, valid, nil},
		{"plain records were compressed", func(d *damaged) {
			l := d.lines(1)
			d.remove(1, "records")
			d.put(1, report.RequestsName, bytes.Join(l, nil))
		}, valid, nil},
		{"a killed shard whose plan was edited", func(d *damaged) {
			d.put(0, PlannedNextName, d.lines(1)[0])
			d.remove(1, report.SummaryName)
			d.remove(1, "records")
		}, refused, []string{PlannedNextName, "is no request that was to be sent"}},
		{"histograms of random bytes", func(d *damaged) { d.put(0, report.HistogramsName, []byte("\x93\x17\xf0\x00 random\nbytes\xff\n,,,\n")) }, refused, []string{"shard-0/histograms.hlog", "not a histogram"}},
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
		{"the same shard twice", func(d *damaged) { d.dirs[1] = d.dirs[0] }, refused, []string{"are both shard 0 of 2"}},
		{"no shard's directory", func(d *damaged) { d.dirs[1] = d.t.TempDir() }, refused, []string{"is no directory of a shard"}},
		{"deep JSON", func(d *damaged) { d.put(0, report.SummaryName, bytes.Repeat([]byte(`{"a":[`), 1<<20)) }, refused, []string{"shard-0/summary.json"}},
		{"deep JSON in a record", func(d *damaged) {
			d.setLines(0, append([]byte(`{"row":1,"outcome":"ok","x":`), bytes.Repeat([]byte(`[`), 1<<20)...))
		}, refused, []string{"requests.jsonl:1"}},
		{"a giant line", func(d *damaged) { d.put(0, report.RequestsName, bytes.Repeat([]byte("a"), 17<<20)) }, refused, []string{"requests.jsonl:1", "longer than"}},
		{"a garbage shard.json", func(d *damaged) { d.put(1, FileName, []byte("\x00\x01")) }, refused, []string{"shard-1/shard.json"}},
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

// checkWorld merges, and compares the end with what it is to be: valid, INVALID or refused.
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
	return "valid:"
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
