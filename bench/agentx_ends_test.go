package bench

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// growingJobs writes jobs of one agent each, whose prompts grow by blocks of 64 tokens.
func growingJobs(t *testing.T) string {
	t.Helper()
	var jobs []wekaJob
	for n := range 5 {
		job := wekaJob{ID: fmt.Sprint("job", n), Scope: "local", Block: 64}
		var ids []int
		took := 0.5
		for turn := range 6 + 5*n {
			for range 1 + (turn+n)%4 {
				ids = append(ids, len(ids)+1)
			}
			job.Requests = append(job.Requests, wekaRow{
				T: 2 * float64(turn), Type: "n", In: 64*len(ids) + turn%64, Out: 2 + turn%5, IDs: append([]int{}, ids...), Took: &took,
			})
		}
		jobs = append(jobs, job)
	}
	return writeWeka(t, jobs)
}

// recycling are the flags of short runs of all that lanes can do.
func recycling(path, url, duration string, more ...string) []string {
	return append([]string{
		path, "--url", url, "--sessions", "lanes=3", "--snapshot", "25%:75%", "--recycle", "--warmup", "4", "--scale", "40",
		"--idle-cap", "tree=300ms", "--assume-latency", "1ms,0.1ms", "--duration", duration, "--scrape", "off", "--cold", "off",
	}, more...)
}

// TestJobsOfAnEndedRun: a recycling run that is interrupted or killed can be read. Interrupted, each planned request has
// a line, and jobs count as their lines say; no merge takes it for a shard.
func TestJobsOfAnEndedRun(t *testing.T) {
	t.Parallel()
	for _, sign := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sign.String(), func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--ttft", "3ms", "--itl", "1ms")
			r := startReplay(t, recycling(growingJobs(t), m.url, "10m", "--no-probe")...)
			r.untilRecorded(t, 121, "ok") // by then jobs have been recycled
			r.signal(t, sign)
			<-r.gone
			m.stop(t)
			res := readResults(t, r.dir)
			said := start(t, nil, "report", r.dir)
			said.wait(t)
			if sign == syscall.SIGKILL {
				expect.Contains(t, said.stdout.String(), "so it was killed", "report")
				expect.Contains(t, said.stdout.String(), " recycled", "report")
				return
			}
			expect.Contains(t, said.stdout.String(), "INVALID (partial)", "report")
			start(t, nil, "merge", r.dir, "--output", r.dir+"-merged").ends(t, 2, "is no directory of a shard")
			all := readLines[claimed](t, requestsFile(r.dir))
			res.takeUnreleased(t)
			type job struct{ amid, begun, whole, measured bool }
			jobs := map[int]job{}
			measured := int64(0)
			for _, l := range all {
				j, known := jobs[l.Job]
				j.whole = (j.whole || !known) && l.Outcome == "ok"
				j.begun = j.begun || l.Phase != "unreleased"
				j.measured = j.measured || l.Phase != "primer" && l.Phase != "warmup"
				j.amid = j.amid || l.Before > 0 || l.Phase == "primer" || l.Phase == "warmup"
				jobs[l.Job] = j
				if l.Phase == "" {
					measured++
				}
			}
			var whole, parts, cut int64
			for _, j := range jobs {
				switch {
				case j.whole && !j.measured: // a lane has warmed up with all of it
				case j.whole && j.amid:
					parts++
				case j.whole:
					whole++
				case j.begun:
					cut++
				}
			}
			s := res.summary
			must.Equal(t, [5]int64{s.Jobs.Finished, s.Jobs.FinishedParts, s.Jobs.CutOff, s.Requests.Planned, s.Jobs.Jobs},
				[5]int64{whole, parts, cut, measured, whole + parts + cut}, "whole jobs, parts, cut off, planned requests, jobs")
		})
	}
}

// TestAbortOfLanes: a run whose jobs are taken again is lost only if what its time still allows cannot save it. What the
// first plays did says nothing of that.
func TestAbortOfLanes(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"status:503@0.4", "status:503"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--ttft", "3ms", "--itl", "1ms")
			load := recycling(growingJobs(t), m.url, "4s", "--no-probe", "--abort-if", "error_rate>20%", "--header", "X-Mock-Fault: "+fault)
			res := run(t, append(load, "--warmup", "0", "--snapshot", "0%:0%")...)
			m.stop(t)
			planned := res.takeUnreleased(t)
			s := res.summary
			t.Logf("%d of %d failed, aborted: %q", s.Requests.Failed, planned, s.Run.Aborted)
			if s.Run.Aborted == "" {
				return
			}
			// What the time allows is no more than what is planned, and no less than what came.
			_, words, _ := strings.Cut(s.Run.Aborted, " of ")
			var most float64
			must.Have(fmt.Sscanf(strings.TrimPrefix(words, "at most "), "%g", &most))(t)
			if float64(s.Requests.Failed) <= 0.2*most || most > float64(planned) || most < float64(s.Requests.Sent) {
				t.Errorf("ended early, when %d of %d requests had failed: %s", s.Requests.Failed, planned, s.Run.Aborted)
			}
		})
	}
}

// TestLanesThatRunOut: if no play is left before the run's time is over, the load was another one, and the verdict says
// so, though all answers came and cover the time that there was.
func TestLanesThatRunOut(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--ttft", "0s", "--itl", "0s")
	load := recycling(growingJobs(t), m.url, "2m", "--no-probe", "--require", "coverage>=50%")
	res := run(t, append(load, "--assume-latency", "100s,10s", "--scale", "4000")...)
	m.stop(t)
	if len(res.lines) != res.takeUnreleased(t) || res.code != 1 {
		t.Errorf("exit code %d, %d lines", res.code, len(res.lines))
	}
	expect.Contains(t, strings.Join(res.reasons(), "\n"), "plays that were planned, and ended", "reasons")
}

// TestLanesLeaveOutTooLong: what is too long for the servers is counted once, and not as unsent.
func TestLanesLeaveOutTooLong(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--ttft", "3ms", "--itl", "1ms", "--max-model-len", "1500")
	res := run(t, recycling(growingJobs(t), m.url, "1s", "--too-long", "drop")...)
	m.stop(t)
	out := map[string]int64{}
	for _, l := range readLines[claimed](t, requestsFile(res.dir)) {
		if l.Outcome == "not_sent" {
			out[l.Phase]++
		}
	}
	s := res.summary
	if out[""] == 0 || out["primer"]+out["warmup"] == 0 {
		t.Fatalf("left out %v: not all was tried", out)
	}
	must.Equal(t, [4]int64{s.Workload.LeftOut, s.Requests.ByOutcome["not_sent"], s.Requests.Planned - s.Requests.OK, s.Preparation.Failed},
		[4]int64{out[""], out[""], out[""], 0}, "left out, not sent, not ok, preparation that failed")
}

// TestHitsOfLanesInLargeBlocks: servers whose blocks are larger or smaller than the trace's have the expected hits of
// each request.
func TestHitsOfLanesInLargeBlocks(t *testing.T) {
	t.Parallel()
	for _, tokens := range []string{"16", "48", "128", "256"} {
		t.Run(tokens, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, "--ttft", "3ms", "--itl", "1ms", "--block-tokens", tokens)
			res := run(t, recycling(growingJobs(t), m.url, "1s")...)
			m.stop(t)
			res.takeUnreleased(t)
			hits := int64(0)
			for _, l := range res.lines {
				hits += l.Expected
				if l.Outcome != "ok" || l.Expected != l.Cached {
					t.Errorf("row %d, %s: %d tokens were cached, expected %d", l.Row, l.Outcome, l.Cached, l.Expected)
				}
			}
			if hits == 0 {
				t.Error("no hits were expected")
			}
		})
	}
}
