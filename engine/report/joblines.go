package report

import (
	"cmp"
	"fmt"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// agentsOf are the results by job of a trace of agents; nil of any other, also of one of conversations.
func agentsOf(s *metrics.Summary) *metrics.Jobs {
	if s.Jobs == nil || len(s.Jobs.Depths) == 0 {
		return nil
	}
	return s.Jobs
}

// jobRow is the completion times of jobs in s; nil if there are none.
func jobRow(s *metrics.Summary) *stats.Percentiles {
	if j := agentsOf(s); j != nil {
		return j.CompletionS
	}
	return nil
}

// jobs adds what became of jobs, where their time went, and the latencies by depth.
func (p *screen) jobs() {
	j := agentsOf(p.s)
	if j == nil {
		return
	}
	perH, ratio, overtaking := "", "", ""
	if j.PerH != nil {
		perH = format.Rate(*j.PerH) + " jobs/h"
	}
	if j.Ratio != nil {
		ratio = fmt.Sprintf("p50 %s × as long as recorded, max %s ×", format.Number(j.Ratio.P50, 3), format.Number(j.Ratio.Max, 3))
	}
	if t := p.s.Turns; t != nil {
		overtaking = format.Some(t.Overtaking, "overtaking")
	}
	p.field(first, 2, "jobs", format.Count(j.Finished)+" of "+format.Counted(j.Jobs, "finished"), format.Some(j.WithFailures, "with failures"),
		format.Some(j.CutOff, "cut off"), perH, ratio, overtaking)
	if j.CompletionS != nil && j.CompletionS.Mean > 0 {
		waits, behind := j.WaitsS.Mean/j.CompletionS.Mean, ""
		if t := p.s.Turns; t != nil && t.LaterMS != nil && t.LaterMS.Max > 0 {
			behind = "delayed up to " + format.Duration(t.LaterMS.Max*1e6, 3)
		}
		p.field(second, 1, "job time", format.Percent(1-waits)+" in requests", format.Percent(waits)+" between them", behind)
	}
	for i := range j.Depths[:min(len(j.Depths), 2)] { // --full has the deeper ones
		d := &j.Depths[i]
		ttft := ""
		if q := d.TTFTMS; q != nil {
			ttft = "TTFT p50 " + format.Duration(q.P50*1e6, 3) + ", p99 " + format.Duration(q.P99*1e6, 3)
		}
		p.field(second, 1, cmp.Or(map[string]string{"0": "main agents", "1": "sub-agents"}[d.Name], "depth "+d.Name), format.Many(d.OK+d.Failed, "request"), format.Some(d.Failed, "failed"), ttft, known(format.Percent, d.ReportedHitRatio, "hits"))
	}
}

// jobSection has the results by job of the page.
func jobSection(s *metrics.Summary, parts []*part) chart.Section {
	const columns = " name requests agents state completion_s recorded_s critical_waits_s critical_requests failed " +
		"ttft_ms.p50 ttft_ms.p99 e2e_ms.p50 e2e_ms.p99 reported_hit_ratio expected_hit_ratio distribution p50 p90 p95 p99 p999 max mean count "
	if s.Jobs == nil {
		return chart.Section{}
	}
	return chart.Section{
		Title: "Jobs", Tables: tablesOf(parts, columns, "jobs", "jobs.depths", "jobs.longest", "jobs.sessions"),
		Note: "A job is a task with all requests of its agents, or a conversation if the trace has no jobs. Its critical path leads from its last answer back to what each request waited for longest. " +
			"Distributions are over finished jobs. The longest jobs are listed, and the conversations whose answers took longest in all.",
	}
}
