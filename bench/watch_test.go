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
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/setup"
)

// listTargets writes a file of targets at once, as an autoscaler would.
func listTargets(t *testing.T, file string, urls ...string) {
	t.Helper()
	writeFile(t, file+".new", strings.Join(urls, "\n")+"\n")
	must.Do(t, os.Rename(file+".new", file))
}

// TestTargetsOfAName: each address of a name is a target.
func TestTargetsOfAName(t *testing.T) {
	t.Parallel()
	mock := startMock(t)
	at := must.Have(url.Parse(mock.url))(t)
	r := run(t, "--trace", steady(t, 20, 100, 2), "--targets", "dns:127.0.0.1:"+at.Port(), "--route", "least-inflight")
	expect.Equal(t, r.summary.Targets[0].URL, "http://127.0.0.1:"+at.Port(), "the target")
	expect.Equal(t, r.summary.Requests.OK, int64(20), "requests")
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

// TestJoiningUnderEachRouter: of three servers in a file one dies and is taken out, and a fourth one is put in, with a
// longer name than any, beside one that never listens. Whatever routes, requests go as by its own rule among those that
// are there, each is where its record says, ideal hits are what was sent there before, and hits are what the caches had.
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
	for i := range 4 {
		m := startMock(t)
		name := m.url
		if i == 3 {
			name = strings.Replace(name, "127.0.0.1", "localhost", 1)
		}
		mocks[name] = m
		urls = append(urls, name)
	}
	dying, joining := urls[2], urls[3]
	const never = "http://127.0.0.1:1"
	listTargets(t, file, urls[:3]...)
	const rows = 1200
	load, blocks := growing(t, rows)
	args := []string{"--trace", load, "--block-tokens", "16", "--targets", "watch:" + file, "--route", router}
	if router == setup.RoutePrefix {
		args = append(args, "--load-bound", "0")
	}
	r := startReplay(t, args...)
	r.untilRecorded(t, 150, "ok")
	writeFile(t, file, "") // half written: nothing may change
	r.untilSaid(t, "the targets stay as they are")
	listTargets(t, file, append(urls, never)...)
	r.untilSaid(t, joining+" joined")
	r.untilRecorded(t, min(r.recorded(t, "ok")+150, rows-200), "ok")
	mocks[dying].kill(t)
	listTargets(t, file, urls[0], urls[1], joining)
	res := r.finish(t)
	res.prove(t)
	changes := res.summary.TargetChanges
	if len(changes) < 3 {
		return "the run was over before its targets had changed"
	}
	if tooSlow = res.slowPages(dying); tooSlow != "" {
		return tooSlow
	}
	must.Equal(t, len(changes), 3, "%+v", changes)
	joins, wants, leaves := changes[0], changes[1], changes[2]
	must.Equal(t, [2]string{joins.What, joins.Target}, [2]string{scrape.Joined, joining}, "%+v", changes)
	must.Equal(t, [2]string{leaves.What, leaves.Target}, [2]string{scrape.Left, dying}, "%+v", changes)
	expect.Equal(t, [3]any{wants.What, wants.Wanted, wants.Had}, [3]any{scrape.Wanted, 5, 4}, "%+v", changes)
	expect.Contains(t, strings.Join(res.summary.Notes, "\n"), never+" never joined")
	records := recordsOf(t, res.dir)
	slices.SortFunc(records, func(x, y record.Record) int { return cmp.Compare(x.Row, y.Row) })
	must.Equal(t, len(records), rows, "records")
	checkIdeals(t, records, blocks)
	c := res.summary.PrefixCache
	expect.Equal(t, c.AboveIdealTokens <= c.OvertakenTokens && *c.ReportedTokens > 0, true, "hits: %+v", c)
	checkServed(t, records, mocks, dying)
	res.checkJoined(t, records, joining)
	const reckoned = 20 // requests that may leave while the others get new places
	joined, left := int(joins.Released), int(leaves.Released)
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

// checkJoined: the summary has four targets. The server that joined is read before its first request, so that it counts
// the tokens of all.
func (r *results) checkJoined(t *testing.T, records []record.Record, joining string) {
	t.Helper()
	requests, made := map[string]int64{}, int64(0)
	for _, rec := range records {
		requests[rec.Target]++
		if rec.Target == joining {
			made += rec.CompletionTokens
		}
	}
	expect.Equal(t, len(r.summary.Targets), 4, "targets: %+v", r.summary.Targets)
	for _, target := range r.summary.Targets {
		expect.Equal(t, target.Requests, requests[target.URL], "requests of %s", target.URL)
	}
	of := slices.IndexFunc(r.summary.Servers.Targets, func(s scrape.Server) bool { return s.Target == joining })
	must.Equal(t, of >= 0, true, "metrics of %s: %+v", joining, r.summary.Servers.Targets)
	counted := r.summary.Servers.Targets[of]
	expect.Equal(t, int64(*counted.GenerationTokens), made, "tokens that %s counted", joining)
	expect.Equal(t, *counted.PromptTokens > 0, true, "%s counted prompt tokens", joining)
	expect.Equal(t, counted.RunningBefore == nil && counted.WaitingBefore == nil, true, "requests at %s before the start: %+v", joining, counted)
	expect.Equal(t, *r.summary.Servers.All.RunningBefore, 0.0, "requests before the start")
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
			args := []string{"--trace", load, "--route", router, "--sender", "thread"}
			mocks := map[string]*mockServer{}
			var urls []string
			for range 4 {
				m := startMock(t)
				mocks[m.url] = m
				urls = append(urls, m.url)
				args = append(args, "--url", m.url)
			}
			r := startReplay(t, args...)
			r.untilRecorded(t, 60, "ok")
			mocks[urls[2]].kill(t)
			res := r.finish(t)
			res.prove(t)
			records := recordsOf(t, res.dir)
			expect.Equal(t, len(records), 400, "records")
			sessions := map[int64]string{}
			for _, rec := range records {
				if at := slices.Index(urls, rec.Target); at < 0 || router == setup.RouteRoundRobin && at != int(rec.Row)%4 {
					t.Errorf("row %d went to %s", rec.Row, rec.Target)
				}
				if first, known := sessions[rec.Session]; router == setup.RouteSession && known && first != rec.Target {
					t.Errorf("session %d went to %s and %s", rec.Session, first, rec.Target)
				}
				sessions[rec.Session] = rec.Target
			}
			checkServed(t, records, mocks, urls[2])
			if c := res.summary.PrefixCache; c.ReportedTokens == nil || *c.ReportedTokens == 0 {
				t.Errorf("hits: %+v", c)
			}
		})
	}
}
