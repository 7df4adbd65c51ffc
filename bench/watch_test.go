package bench

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
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
	for _, router := range setup.Routes() {
		if router != setup.RouteLeastInFlight {
			said := refused(t, load, "--targets", "watch:"+file, "--route", router)
			expect.Contains(t, said, "--route least-inflight", router)
		}
	}
	expect.Contains(t, refused(t, load, "--targets", "watch:"+file, "--url", "a:1", "--route", "least-inflight"), "names all servers", "beside --url")
	expect.Contains(t, refused(t, load, "--targets", "watch:"+file+"x", "--route", "least-inflight"), "no such file", "no file")
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
