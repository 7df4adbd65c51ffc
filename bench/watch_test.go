package bench

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// listTargets writes a file of targets at once, as an autoscaler would.
func listTargets(t *testing.T, file string, urls ...string) {
	t.Helper()
	writeFile(t, file+".new", strings.Join(urls, "\n")+"\n")
	must.Do(t, os.Rename(file+".new", file))
}

// TestTargetsThatComeAndGo: of three servers in a file that is read again one dies and is taken out, and a fourth one
// is put in, with a longer name than any. Each request is where its record says, and hits are what the caches there
// had.
func TestTargetsThatComeAndGo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "targets.txt")
	mocks := []*mockServer{startMock(t), startMock(t), startMock(t), startMock(t)}
	at := must.Have(url.Parse(mocks[3].url))(t)
	joining := "http://localhost:" + at.Port()
	dying := mocks[2]
	listTargets(t, file, mocks[0].url, mocks[1].url, dying.url)
	load := generate(t, "--rows", "1500", "--rate", "100", "--input-tokens", "600:1500", "--output-tokens", "6", "--reuse", "0.5", "--seed", "3")
	r := startReplay(t, "--trace", load, "--targets", "watch:"+file, "--route", "least-inflight", "--sender", "thread")
	until(t, "some requests have ended", func() bool { return r.recorded(t, "ok") >= 200 })
	writeFile(t, file, "") // half written: nothing may change
	until(t, "the empty file was seen", func() bool { return strings.Contains(r.stderr.String(), "the targets stay as they are") })
	const never = "http://127.0.0.1:1"
	listTargets(t, file, mocks[0].url, mocks[1].url, dying.url, joining, never)
	until(t, "the fourth has joined", func() bool { return strings.Contains(r.stderr.String(), joining+" joined") })
	dying.kill(t)
	listTargets(t, file, mocks[0].url, mocks[1].url, joining)
	until(t, "the third has left", func() bool { return strings.Contains(r.stderr.String(), dying.url+" left") })
	res := r.finish(t)
	res.prove(t)
	changes := res.summary.TargetChanges
	must.Equal(t, len(changes), 3, "%+v", changes)
	joined, wanted, left := changes[0], changes[1], changes[2]
	expect.Equal(t, [3]any{wanted.What, wanted.Wanted, wanted.Had}, [3]any{scrape.Wanted, 5, 4}, "%+v", changes)
	expect.Contains(t, strings.Join(res.summary.Notes, "\n"), never+" never joined")
	if joined.What != scrape.Joined || joined.Target != joining || left.What != scrape.Left || left.Target != dying.url {
		t.Fatalf("%+v", changes)
	}
	sent := map[string]int64{}
	for _, l := range res.lines {
		sent[l.Target]++
		planned := float64(l.Planned) / 1e9
		switch {
		case l.Target == joining && planned < joined.AtS-1, l.Target == dying.url && planned > left.AtS+1:
			t.Errorf("row %d went to %s at %v s: %+v", l.Row, l.Target, planned, changes)
		case !l.ok() && l.Target != dying.url:
			t.Errorf("row %d to %s is %s (%s)", l.Row, l.Target, l.Outcome, l.Error)
		}
	}
	if sent[joining] < 50 || sent[joining] > sent[mocks[0].url] {
		t.Errorf("requests by target: %v", sent)
	}
	names := map[string]*mockServer{mocks[0].url: mocks[0], mocks[1].url: mocks[1], joining: mocks[3]}
	expect.Equal(t, len(res.summary.Targets), 4, "targets: %+v", res.summary.Targets)
	for name, mock := range names {
		i := slices.IndexFunc(res.summary.Targets, func(t metrics.Target) bool { return t.URL == name })
		must.Equal(t, i >= 0, true, "%s in the summary", name)
		expect.Equal(t, res.summary.Targets[i].Requests, sent[name], "requests of %s", name)
		log := mock.stop(t)
		for _, l := range res.lines {
			if l.Target != name {
				continue
			}
			served := log[l.ID]
			if len(served) != 1 || served[0].Cached != l.Cached || served[0].Prompt != l.Prompt {
				t.Errorf("row %d at %s: served %+v, recorded %d of %d cached", l.Row, name, served, l.Cached, l.Prompt)
			}
		}
	}
	joinedCounts := slices.IndexFunc(res.summary.Servers.Targets, func(s scrape.Server) bool { return s.Target == joining })
	must.Equal(t, joinedCounts >= 0, true, "metrics of %s: %+v", joining, res.summary.Servers.Targets)
	if read := res.summary.Servers.Targets[joinedCounts].PromptTokens; read == nil || *read == 0 {
		t.Errorf("prompt tokens that %s counted: %v", joining, read)
	}
	made := int64(0)
	for _, l := range res.lines {
		if l.Target == joining {
			made += l.Completion
		}
	}
	counted := res.summary.Servers.Targets[joinedCounts]
	expect.Equal(t, int64(*counted.GenerationTokens), made, "tokens that %s counted: it is read before its first request", joining)
	expect.Equal(t, counted.RunningBefore == nil && counted.WaitingBefore == nil, true, "requests at %s before the start: %+v", joining, counted)
	expect.Equal(t, *res.summary.Servers.All.RunningBefore, 0.0, "requests before the start")
	c := res.summary.PrefixCache
	if c.AboveIdealTokens > c.OvertakenTokens || c.ReportedTokens == nil || *c.ReportedTokens == 0 {
		t.Errorf("hits: %+v", c)
	}
}

// TestTargetsOfAName: each address of a name is a target.
func TestTargetsOfAName(t *testing.T) {
	t.Parallel()
	mock := startMock(t)
	at := must.Have(url.Parse(mock.url))(t)
	r := run(t, "--trace", steady(t, 20, 100, 2), "--targets", "dns:127.0.0.1:"+at.Port(), "--route", "least-inflight")
	expect.Equal(t, r.summary.Targets[0].URL, "http://127.0.0.1:"+at.Port(), "the target")
	expect.Equal(t, r.summary.Requests.OK, int64(20), "requests")
	load := steady(t, 3, 10, 2)
	for source, want := range map[string]string{"dns:llm": "want dns:HOST:PORT", "dns:llm.invalid:80": "cannot resolve llm.invalid", "dns::80": "want dns:HOST:PORT"} {
		expect.Contains(t, refused(t, load, "--targets", source, "--route", "least-inflight"), want, source)
	}
}

// TestWatchedTargetsRefused: what cannot work is refused before anything is sent.
func TestWatchedTargetsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "targets.txt")
	listTargets(t, file, startMock(t).url)
	load := steady(t, 3, 10, 2)
	said := refused(t, "samples/agentic.jsonl", "--targets", "watch:"+file, "--sessions", "think", "--history", "live", "--api", "chat")
	expect.Contains(t, said, "no targets that come and go", "live history")
	expect.Contains(t, refused(t, load, "--targets", "watch:"+file, "--url", "a:1", "--route", "least-inflight"), "names all servers", "beside --url")
	expect.Contains(t, refused(t, load, "--targets", "watch:"+file+"x", "--route", "least-inflight"), "no such file", "no file")
}

// growing are rows of conversations that begin one after the other and go on, ten ms apart. Each has whole blocks of 16
// tokens that go on from those of its conversation before, and a part of one that is its own.
func growing(t *testing.T, n int) (path string, blocks [][]int) {
	t.Helper()
	var text strings.Builder
	chance := rand.New(rand.NewPCG(2, 2))
	turns := map[int]int{}
	for i := range n {
		session := i/15 + chance.IntN(40)
		turns[session]++
		ids := []int{}
		for k := range 1 + 2*turns[session] {
			ids = append(ids, session*1000+k)
		}
		blocks = append(blocks, ids)
		fmt.Fprintf(&text, "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":2,\"session_id\":%d,\"hash_ids\":%s}\n",
			i*10, 16*len(ids)+6, session, strings.ReplaceAll(fmt.Sprint(append(slices.Clone(ids), 1e6+i)), " ", ","))
	}
	path = filepath.Join(t.TempDir(), "growing.jsonl")
	writeFile(t, path, text.String())
	return path, blocks
}

// leading is how many of the blocks, from the first, a server has seen.
func leading(seen map[int]bool, blocks []int) (n int) {
	for n < len(blocks) && seen[blocks[n]] {
		n++
	}
	return n
}

// TestJoiningUnderEachRouter: of three servers in a file one dies and is taken out, and a fourth one is put in. Whatever
// routes, requests go as by its own rule among those that are there, each is where its record says, ideal hits are what
// was sent there before, and hits are what the caches had.
func TestJoiningUnderEachRouter(t *testing.T) {
	for _, router := range setup.Routes() {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			quickEnough(t, func() string { return joinAndDie(t, router) })
		})
	}
}

// joinAndDie is one run of TestJoiningUnderEachRouter. It returns why nothing can be told of it.
func joinAndDie(t *testing.T, router string) (tooSlow string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "targets.txt")
	mocks := map[string]*mockServer{}
	var urls []string
	for range 4 {
		m := startMock(t)
		mocks[m.url] = m
		urls = append(urls, m.url)
	}
	dying, joining := urls[2], urls[3]
	listTargets(t, file, urls[:3]...)
	const rows = 1200
	load, blocks := growing(t, rows)
	args := []string{"--trace", load, "--block-tokens", "16", "--targets", "watch:" + file, "--route", router}
	if router == setup.RoutePrefix {
		args = append(args, "--load-bound", "0")
	}
	r := startReplay(t, args...)
	until(t, "some requests have ended", func() bool { return r.recorded(t, "ok") >= 150 })
	listTargets(t, file, urls...)
	until(t, "the fourth has joined", func() bool { return strings.Contains(r.stderr.String(), joining+" joined") })
	at := r.recorded(t, "ok")
	until(t, "it has got some", func() bool { return r.recorded(t, "ok") >= min(at+150, rows-200) })
	mocks[dying].kill(t)
	listTargets(t, file, urls[0], urls[1], joining)
	res := r.finish(t)
	res.prove(t)
	changes := res.summary.TargetChanges
	if len(changes) < 2 {
		return "the run was over before its targets had changed"
	}
	must.Equal(t, len(changes), 2, "%+v", changes)
	must.Equal(t, [2]string{changes[0].What, changes[1].What}, [2]string{scrape.Joined, scrape.Left}, "%+v", changes)
	records := recordsOf(t, res.dir)
	slices.SortFunc(records, func(x, y record.Record) int { return cmp.Compare(x.Row, y.Row) })
	must.Equal(t, len(records), rows, "records")
	checkIdeals(t, records, blocks)
	c := res.summary.PrefixCache
	expect.Equal(t, c.AboveIdealTokens <= c.OvertakenTokens && *c.ReportedTokens > 0, true, "hits: %+v", c)
	checkServed(t, records, mocks, dying)
	const reckoned = 20 // requests that may leave while the others get new places
	joined, left := int(changes[0].Released), int(changes[1].Released)
	for _, part := range []struct {
		from, to int
		there    []string
	}{{0, joined - reckoned, urls[:3]}, {joined + reckoned, left - reckoned, urls}, {left + reckoned, rows, []string{urls[0], urls[1], joining}}} {
		if part.to-part.from < 80 {
			return fmt.Sprintf("rows %d to %d are too few", part.from, part.to)
		}
		checkRouted(t, router, records, part.from, part.to, part.there, blocks)
	}
	if router == setup.RouteSession {
		checkMoves(t, records[:joined-reckoned], records[joined+reckoned:left-reckoned], func(_, to string) bool { return to == joining })
		checkMoves(t, records[joined+reckoned:left-reckoned], records[left+reckoned:], func(from, _ string) bool { return from == dying })
	}
	return ""
}

// checkIdeals: a cache at each target that has seen what was sent there before has the ideal hits of each record.
func checkIdeals(t *testing.T, records []record.Record, blocks [][]int) {
	t.Helper()
	seen := map[string]map[int]bool{}
	for i, rec := range records {
		if seen[rec.Target] == nil {
			seen[rec.Target] = map[int]bool{}
		}
		expect.Equal(t, rec.ExpectedCachedTokens, int64(16*leading(seen[rec.Target], blocks[i])), "ideal hits of row %d at %s", i, rec.Target)
		for _, id := range blocks[i] {
			seen[rec.Target][id] = true
		}
	}
}

// checkServed: each request is where its record says, and found what the record says; only the dead one's fail.
func checkServed(t *testing.T, records []record.Record, mocks map[string]*mockServer, dead string) {
	t.Helper()
	logs := map[string]map[string][]served{}
	for url, m := range mocks {
		if url != dead {
			logs[url] = m.stop(t)
		}
	}
	for _, rec := range records {
		if rec.Target == dead {
			continue
		}
		expect.Equal(t, rec.Outcome, record.OK, "row %d at %s: %s", rec.Row, rec.Target, rec.Error)
		of := logs[rec.Target][rec.RequestID]
		if len(of) != 1 || of[0].Cached != rec.CachedTokens || of[0].Prompt != rec.PromptTokens {
			t.Errorf("row %d at %s: served %+v, recorded %d of %d cached", rec.Row, rec.Target, of, rec.CachedTokens, rec.PromptTokens)
		}
	}
}

// checkRouted: a part of the records went among those that were there as the router's own rule has it.
func checkRouted(t *testing.T, router string, records []record.Record, from, to int, there []string, blocks [][]int) {
	t.Helper()
	n := map[string]int{}
	seen := map[string]map[int]bool{}
	homes := map[int64]string{}
	wrong := 0
	for _, url := range there {
		seen[url] = map[int]bool{}
	}
	for i, rec := range records[:to] {
		if i < from {
			for _, id := range blocks[i] {
				if seen[rec.Target] != nil {
					seen[rec.Target][id] = true
				}
			}
			continue
		}
		must.Equal(t, slices.Contains(there, rec.Target), true, "row %d of %d to %d went to %s", i, from, to, rec.Target)
		n[rec.Target]++
		most := 0
		for _, url := range there {
			most = max(most, leading(seen[url], blocks[i]))
		}
		switch home, known := homes[rec.Session]; {
		case router == setup.RouteRoundRobin && i >= from+len(there) && rec.Target != records[i-len(there)].Target:
			t.Errorf("rows %d and %d of %d in turn: %s and %s", i-len(there), i, len(there), records[i-len(there)].Target, rec.Target)
		case router == setup.RouteSession && known && home != rec.Target:
			t.Errorf("session %d at %s and %s", rec.Session, home, rec.Target)
		case router == setup.RoutePrefix && leading(seen[rec.Target], blocks[i]) < most:
			wrong++
		}
		homes[rec.Session] = rec.Target
		for _, id := range blocks[i] {
			seen[rec.Target][id] = true
		}
	}
	if wrong > (to-from)/10 { // some follow what left while the places were reckoned
		t.Errorf("%d of rows %d to %d went where less of their prompts is than elsewhere", wrong, from, to)
	}
	share := float64(to-from) / float64(len(there))
	for _, url := range there {
		off := math.Abs(float64(n[url]) - share)
		switch {
		case router == setup.RouteRoundRobin && off > 1, router == setup.RouteRandom && off > 5*math.Sqrt(share), n[url] == 0:
			t.Errorf("rows %d to %d: %v", from, to, n)
		}
	}
}

// checkMoves: of conversations with requests before and after only those moved that may.
func checkMoves(t *testing.T, before, after []record.Record, may func(from, to string) bool) {
	t.Helper()
	homes, moves, stays := map[int64]string{}, 0, 0
	for _, rec := range before {
		homes[rec.Session] = rec.Target
	}
	for _, rec := range after {
		home := homes[rec.Session]
		switch {
		case home == "":
		case home == rec.Target:
			stays++
		default:
			moves++
			expect.Equal(t, may(home, rec.Target), true, "session %d moved from %s to %s", rec.Session, home, rec.Target)
		}
	}
	expect.Equal(t, moves > 0 && stays > 0, true, "requests of conversations that moved: %d, that stayed: %d", moves, stays)
}

// TestADeathUnderEachRouter: of four servers one dies. Whatever routes, only requests there fail, what was planned for a
// server goes there to the end, and hits are what the caches had.
func TestADeathUnderEachRouter(t *testing.T) {
	load := generate(t, "--format", "bailian", "--rows", "400", "--rate", "100", "--turns", "1:4", "--input-tokens", "300:900", "--output-tokens", "4", "--reuse", "0.5")
	for _, router := range setup.Routes() {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			mocks := []*mockServer{startMock(t), startMock(t), startMock(t), startMock(t)}
			args := []string{"--trace", load, "--route", router, "--sender", "thread"}
			place := map[string]int{}
			for i, m := range mocks {
				args = append(args, "--url", m.url)
				place[m.url] = i
			}
			r := startReplay(t, args...)
			until(t, "some requests have ended", func() bool { return r.recorded(t, "ok") >= 60 })
			mocks[2].kill(t)
			res := r.finish(t)
			res.prove(t)
			expect.Equal(t, len(res.lines), 400, "records")
			sessions := map[int64]string{}
			for i, l := range res.lines {
				if at, known := place[l.Target]; !known || router == setup.RouteRoundRobin && at != int(l.Row)%4 {
					t.Errorf("row %d went to %s", l.Row, l.Target)
				}
				if first, known := sessions[l.Session]; router == setup.RouteSession && known && first != l.Target {
					t.Errorf("session %d went to %s and %s", l.Session, first, l.Target)
				}
				sessions[l.Session] = l.Target
				if !l.ok() && l.Target != mocks[2].url {
					t.Errorf("record %d at %s is %s (%s)", i, l.Target, l.Outcome, l.Error)
				}
			}
			for i, m := range mocks {
				if i == 2 {
					continue
				}
				log := m.stop(t)
				for _, l := range res.lines {
					if l.Target != m.url {
						continue
					}
					if served := log[l.ID]; len(served) != 1 || served[0].Cached != l.Cached || served[0].Prompt != l.Prompt {
						t.Errorf("row %d at %s: served %+v, recorded %d of %d cached", l.Row, l.Target, served, l.Cached, l.Prompt)
					}
				}
			}
			if c := res.summary.PrefixCache; c.ReportedTokens == nil || *c.ReportedTokens == 0 {
				t.Errorf("hits: %+v", c)
			}
		})
	}
}
