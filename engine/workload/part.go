package workload

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/sched"
)

// Number is request i's number in the whole work.
func (w *Work) Number(i int) int {
	if w.Numbers == nil {
		return i
	}
	return int(w.Numbers[i])
}

// What requests cost a client, in ns of a processor: see the page of the manual about machines. Only the ratios count.
const (
	costOfRequest = 10_000 // 8.4 to 10.5 µs, closed loop
	costOfOutput  = 20_000 // a token that comes: a core carries some 50,000 a second
	costOfInput   = 15     // a token that is built, hashed and written: 145 million take 1 s of two cores
)

// Divide returns which of count shards sends each request, and what the shards have to do, in ns of a processor. Jobs
// and conversations stay whole, and so does what depends on each other. In the order of their first requests each goes
// to the shard that has the least to do so far. So no two shards differ by more than the dearest job costs, at any time
// of the plan. If there are fewer jobs than shards, the last shards have nothing to do. It is the same on every
// machine.
func (w *Work) Divide(count int) (of []int32, busy []int64) {
	job, n := w.Trace.JobNumbers()
	together := make([]int32, n) // jobs that depend on each other: a forest
	for k := range together {
		together[k] = int32(k)
	}
	root := func(k int32) int32 {
		for together[k] != k {
			together[k] = together[together[k]]
			k = together[k]
		}
		return k
	}
	graph := w.Trace.Graph(w.Requests())
	for i := range w.Requests() {
		for _, wait := range graph.Of(i) {
			a := root(job[i])
			b := root(job[wait.On])
			together[max(a, b)] = min(a, b)
		}
	}
	whole := make([]int64, n)
	for i := range w.Requests() {
		input := int64(w.Trace.InputTokens[i])
		if !w.Made(i) {
			input = int64(len(w.Trace.Verbatim(i).Content) / 4)
		}
		output := int64(w.Trace.OutputTokens[i])
		whole[root(job[i])] += costOfRequest + costOfOutput*output + costOfInput*input
	}
	to := slices.Repeat([]int32{-1}, n)
	of = make([]int32, w.Requests())
	busy = make([]int64, count)
	for i := range of {
		k := root(job[i])
		if to[k] < 0 {
			idlest := slices.Index(busy, slices.Min(busy))
			busy[idlest] += whole[k]
			to[k] = int32(idlest)
		}
		of[i] = to[k]
	}
	return of, busy
}

// KeepPart makes w the part that a shard sends, by what Divide returned. It returns the ideal hits of the part, and the
// records of the next shard's requests, which nobody else keeps if that shard is lost. Ideal hits are those of the
// whole work; it is called before Layout.
func (w *Work) KeepPart(
	p sched.Part, of []int32, runID string, ideal IdealHits, backend api.Backend,
) (IdealHits, []record.Record) {
	var own []int32
	var next []record.Record
	following := (p.Index + 1) % p.Count
	for i, r := range w.Records(runID, ideal, backend) {
		if int(of[i]) == p.Index {
			own = append(own, int32(i))
			w.records = append(w.records, r)
		}
		if int(of[i]) == following {
			next = append(next, r)
		}
	}
	ideal = IdealHits{
		Expected: lists.Pick(own, ideal.Expected),
		Least:    lists.Pick(own, ideal.Least),
		Most:     lists.Pick(own, ideal.Most),
	}
	w.Places = lists.Pick(own, w.Places)
	w.Verbatim = w.Verbatim.of(own)
	w.Plan.Concurrency = p.Of(w.Plan.Concurrency)
	w.Plan.Cap = p.Of(w.Plan.Cap)
	w.Plan = w.Plan.Only(own)
	w.keepRows(own)
	if w.Answers != nil {
		w.TellAnswers(w.Answers.source)
	}
	w.Numbers = own
	return ideal, next
}

// Identity is SHA-256 over all that decides what the shards of a whole work send, when and where. That is settings, and
// of each request its shard, instant, place, lengths, content and expected hits.
func (w *Work) Identity(of []int32, ideal IdealHits, settings ...any) string {
	h := sha256.New()
	fmt.Fprintln(h, settings...)
	plan := &w.Plan
	fmt.Fprintln(h, w.Requests(), plan.Concurrency, plan.Cap, plan.EndNS, w.Overhead, w.URLs())
	var b []byte
	for i := range w.Requests() {
		b = b[:0]
		at := w.plannedNS(i)
		for _, n := range []int64{
			int64(of[i]),
			int64(w.Trace.Row[i]),
			int64(w.Trace.Unique(i)),
			at,
			int64(w.Places[i].Target),
			int64(w.Places[i].Endpoint),
			int64(w.Trace.InputTokens[i]),
			int64(w.Trace.OutputTokens[i]),
			ideal.Least[i],
		} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b, _ = binary.Append(b, binary.LittleEndian, w.Trace.Blocks(i))
		h.Write(b)
		l := w.Trace.Verbatim(i)
		for _, content := range [][]byte{l.Content, l.Tools, l.Extra} {
			_, _ = h.Write(content)
		}
		if w.Plan.Dependencies != nil {
			fmt.Fprint(h, w.Plan.Dependencies.Of(int32(i)))
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// WriteDigests writes the digests of a part's requests, all of which are built, as digests.bin of a shard has them.
func (m *Requests) WriteDigests(to io.Writer) error {
	w := m.work
	out := bufio.NewWriter(to)
	var line []byte
	for i := range m.digests {
		line = binary.LittleEndian.AppendUint64(line[:0], uint64(w.Number(i)))
		line = m.appendDigest(line, i)
		_, _ = out.Write(line) // Flush has the error
	}
	return out.Flush()
}
