package metrics

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

func ptr[T any](v T) *T { return &v }

// watched is a sound run of 10 s on 2 cores whose client was watched and lost nothing, with 20 requests late.
func watched() *Summary {
	s := sound()
	s.DriftUS = &Percentiles{P99: 8100}
	s.Client.Realtime = true
	s.Client.Stamps = &Stamps{Received: true, Reads: 10_000}
	s.Client.ReceiveLagUS = &Percentiles{P99: 100, Mean: 50}
	s.Client.StolenS, s.Client.StolenShare, s.Client.StolenWorst = ptr(0.0), ptr(0.0), ptr(0.0)
	s.Client.ThrottledS, s.Client.RunQueueS, s.Client.LaneRunQueueS = ptr(0.0), ptr(3.2), ptr(0.0)
	s.Client.Late = &Late{Requests: 20, Stolen: of(0, 0), Throttled: of(0, 0), Waited: of(0, 0)}
	return s
}

func steal(s *Summary, seconds, worst float64) {
	s.Client.StolenS, s.Client.StolenShare, s.Client.StolenWorst = ptr(seconds), ptr(seconds/20), ptr(worst)
}

const (
	driftIs    = "drift p99 is 8.100 ms, above --max-drift 5 ms: "
	nobody     = driftIs + "give the client more or idle cores and real-time priority, or lower --scale"
	byHost     = ": the machine, not the server; run on one whose CPUs are its own"
	byLimit    = ": the machine, not the server; raise the limit (resources.limits.cpu in Kubernetes) or remove it"
	byShortage = ": give it more or idle cores, or lower --scale"
)

func TestDriftBlame(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *Summary, c *Client, l *Late)
		want   string
	}{
		{"nobody watched", func(s *Summary, c *Client, l *Late) { s.Client = Client{} }, nobody},
		{"nothing happened", func(*Summary, *Client, *Late) {}, nobody},
		{"nothing is known", func(s *Summary, c *Client, l *Late) { s.Client = Client{Late: &Late{Requests: 20}} }, nobody},
		{"the host, at the late requests", func(s *Summary, c *Client, l *Late) { steal(s, 0.15, 0.05); l.Stolen = of(19, 0.12) },
			driftIs + "the host took CPU time away (150 ms in 10.0 s on 2 cores; it can explain 19 of the 20 late requests; 12 % of the punctual ones met as much)" + byHost},
		{"the host, at too few of them", func(s *Summary, c *Client, l *Late) { steal(s, 0.5, 0.05); l.Stolen = of(13, 0) }, nobody},
		{"just enough of them", func(s *Summary, c *Client, l *Late) { l.Requests = 21; steal(s, 0.001, 0.05); l.Stolen = of(14, 1.0/3) },
			driftIs + "the host took CPU time away (1.00 ms in 10.0 s on 2 cores; it can explain 14 of the 21 late requests; 33 % of the punctual ones met as much)" + byHost},
		{"the host, a little at all requests alike", func(s *Summary, c *Client, l *Late) { steal(s, 0.199, 0.05); l.Stolen = of(20, 0.51) }, nobody},
		{"the host, enough at all requests alike", func(s *Summary, c *Client, l *Late) { steal(s, 0.2, 0.05); l.Stolen = of(20, 0.51) },
			driftIs + "the host took CPU time away (200 ms in 10.0 s on 2 cores; it can explain 20 of the 20 late requests; 51 % of the punctual ones met as much)" + byHost},
		{"all requests were late", func(s *Summary, c *Client, l *Late) { steal(s, 0.2, 0.05); l.Stolen = &Overlap{Requests: 20} },
			driftIs + "the host took CPU time away (200 ms in 10.0 s on 2 cores; it can explain 20 of the 20 late requests)" + byHost},
		{"all were late and little was taken", func(s *Summary, c *Client, l *Late) { steal(s, 0.1, 0.05); l.Stolen = &Overlap{Requests: 20} }, nobody},
		{"much was taken, but not from the late", func(s *Summary, c *Client, l *Late) { steal(s, 5, 0.9); l.Stolen = of(2, 0.9) }, nobody},
		{"the limit", func(s *Summary, c *Client, l *Late) { c.ThrottledS = ptr(1.25); l.Throttled = of(20, 0.1) },
			driftIs + "the container's CPU limit stopped the client (1.25 s in 10.0 s on 2 cores; it can explain 20 of the 20 late requests; 10 % of the punctual ones met as much)" + byLimit},
		{"short of CPU", func(s *Summary, c *Client, l *Late) { c.LaneRunQueueS = ptr(1.1); l.Waited = of(20, 0.1) },
			driftIs + "the client ran short of CPU (its threads waited 3.20 s in all for a core, the sending threads 1.10 s; it can explain 20 of the 20 late requests; 10 % of the punctual ones met as much)" + byShortage},
		{"short of CPU without priority", func(s *Summary, c *Client, l *Late) {
			c.LaneRunQueueS, c.Realtime, l.Waited, l.Requests = ptr(1.1), false, of(1, 0), 1
		}, driftIs + "the client ran short of CPU (its threads waited 3.20 s in all for a core, the sending threads 1.10 s; it can explain 1 of the 1 late request; none of the punctual ones met as much): give it more or idle cores and real-time priority, or lower --scale"},
		{"several sending threads, which waited too little", func(s *Summary, c *Client, l *Late) {
			c.LaneRunQueueS, c.Lanes, l.Waited = ptr(0.299), 3, of(20, 0.6)
		}, nobody},
		{"several sending threads, which waited enough", func(s *Summary, c *Client, l *Late) {
			c.LaneRunQueueS, c.Lanes, l.Waited = ptr(0.301), 3, of(20, 0.6)
		}, driftIs + "the client ran short of CPU (its threads waited 3.20 s in all for a core, the sending threads 301 ms; it can explain 20 of the 20 late requests; 60 % of the punctual ones met as much)" + byShortage},
		{"two that stand out", func(s *Summary, c *Client, l *Late) {
			c.ThrottledS, c.LaneRunQueueS, l.Throttled, l.Waited = ptr(1.25), ptr(1.1), of(18, 0.2), of(20, 0.3)
		}, driftIs + "the container's CPU limit stopped the client (1.25 s in 10.0 s on 2 cores; it can explain 18 of the 20 late requests; 20 % of the punctual ones met as much) and " +
			"the client ran short of CPU (its threads waited 3.20 s in all for a core, the sending threads 1.10 s; it can explain 20 of the 20 late requests; 30 % of the punctual ones met as much)" + byLimit},
		{"one that stands out beside much everywhere", func(s *Summary, c *Client, l *Late) {
			steal(s, 3, 0.5)
			c.LaneRunQueueS, l.Stolen, l.Waited = ptr(0.1), of(20, 0.9), of(20, 0.1)
		}, driftIs + "the client ran short of CPU (its threads waited 3.20 s in all for a core, the sending threads 100 ms; it can explain 20 of the 20 late requests; 10 % of the punctual ones met as much)" + byShortage},
		{"on all requests alike, as on many cores", func(s *Summary, c *Client, l *Late) {
			steal(s, 3, 0.5)
			l.Stolen = of(20, 0.96)
		}, driftIs + "give the client more or idle cores and real-time priority, or lower --scale"},
		{"not built in time", func(s *Summary, c *Client, l *Late) {
			s.BuildAhead = &BuildAhead{WindowBytes: 1e6, LeastLeadMS: ptr(-25.5), Late: 14}
			l.Requests = 21
		}, driftIs + "14 requests not built in time (1.00 MB at a time, least lead -25.5 ms): raise --max-memory, give the client more cores, or lower the rate"},
		{"not built in time, but too few", func(s *Summary, c *Client, l *Late) {
			s.BuildAhead = &BuildAhead{WindowBytes: 1e6, LeastLeadMS: ptr(-25.5), Late: 13}
		}, nobody},
		{"all built in time", func(s *Summary, c *Client, l *Late) {
			s.BuildAhead = &BuildAhead{WindowBytes: 1e6, LeastLeadMS: ptr(25.5)}
		}, nobody},
		{"not built in time, and nobody watched", func(s *Summary, c *Client, l *Late) {
			s.BuildAhead = &BuildAhead{WindowBytes: 1e6, LeastLeadMS: ptr(-25.5), Late: s.Requests.Sent / 50}
			c.Late = nil
		}, driftIs + "20 requests not built in time (1.00 MB at a time, least lead -25.5 ms): raise --max-memory, give the client more cores, or lower the rate"},
		{"two everywhere", func(s *Summary, c *Client, l *Late) {
			steal(s, 3, 0.5)
			c.LaneRunQueueS, l.Stolen, l.Waited = ptr(3.0), of(20, 0.9), of(20, 0.9)
		}, driftIs + "the host took CPU time away (3.00 s in 10.0 s on 2 cores; it can explain 20 of the 20 late requests; 90 % of the punctual ones met as much) and the client ran short of CPU (its threads waited 3.20 s in all for a core, the sending threads 3.00 s; it can explain 20 of the 20 late requests; 90 % of the punctual ones met as much)" + byHost},
	} {
		s := watched()
		tt.change(s, &s.Client, s.Client.Late)
		if got := Judge(s).Reasons; len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

func TestReadsBlame(t *testing.T) {
	const readLate = "the client read late, at p99 7.200 ms after the kernel had received (limit 5 ms), so tokens that came apart may share one instant: "
	for _, tt := range []struct {
		name   string
		change func(s *Summary, c *Client)
		want   string
	}{
		{"nothing known", func(s *Summary, c *Client) { s.Client = Client{ReceiveLagUS: c.ReceiveLagUS} }, "give it more cores"},
		{"little of everything", func(s *Summary, c *Client) {
			steal(s, 0.19, 0.09)
			c.ThrottledS, c.RunQueueS = ptr(0.095), ptr(2.49)
		}, "give it more cores"},
		{"the host", func(s *Summary, c *Client) { steal(s, 0.2, 0); c.RunQueueS = ptr(0.0) },
			"meanwhile the host took CPU time away (200 ms in 10.0 s on 2 cores)" + byHost},
		{"the limit", func(s *Summary, c *Client) { c.ThrottledS, c.RunQueueS = ptr(0.2), ptr(0.0) },
			"meanwhile the container's CPU limit stopped the client (200 ms in 10.0 s on 2 cores)" + byLimit},
		{"half of the lag was waiting", func(s *Summary, c *Client) { c.RunQueueS = ptr(2.5) },
			"meanwhile the client ran short of CPU (its threads waited 2.50 s in all for a core, the sending threads 0 ns)" + byShortage},
		{"so it was, without a thread that sends alone", func(s *Summary, c *Client) { c.RunQueueS, c.LaneRunQueueS = ptr(2.5), nil },
			"meanwhile the client ran short of CPU (its threads waited 2.50 s in all for a core)" + byShortage},
		{"the host and so it was", func(s *Summary, c *Client) { steal(s, 0.2, 0); c.RunQueueS = ptr(5.0) },
			"meanwhile the host took CPU time away (200 ms in 10.0 s on 2 cores) and the client ran short of CPU (its threads waited 5.00 s in all for a core, the sending threads 0 ns)" + byHost},
	} {
		s := watched()
		s.DriftUS.P99 = 10
		s.Client.ReceiveLagUS = &Percentiles{P99: 7200, Mean: 500} // 5 s over all reads
		tt.change(s, &s.Client)
		if got := Judge(s).Reasons; len(got) != 1 || got[0] != readLate+tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, readLate+tt.want)
		}
	}
}

func TestMachineNotes(t *testing.T) {
	const (
		tails = " may be the machine's, not the server's"
		ours  = "the tails of drift and of latencies, which go by our reads," + tails
	)
	for _, tt := range []struct {
		name   string
		change func(s *Summary, c *Client)
		want   []string
	}{
		{"nothing", func(*Summary, *Client) {}, nil},
		{"nothing known", func(s *Summary, c *Client) { s.Client = Client{} }, nil},
		{"a little", func(s *Summary, c *Client) {
			steal(s, 0.2, 0.1)
			c.ThrottledS, c.LaneRunQueueS = ptr(0.099), ptr(0.099)
		}, nil},
		{"stolen", func(s *Summary, c *Client) { steal(s, 0.21, 0.02) },
			[]string{"the host took CPU time away (210 ms in 10.0 s on 2 cores; 2.0 % in the worst second): the tail of drift and, less, those of latencies" + tails}},
		{"stolen in one second", func(s *Summary, c *Client) { steal(s, 0.19, 0.11) },
			[]string{"the host took CPU time away (190 ms in 10.0 s on 2 cores; 11 % in the worst second): the tail of drift and, less, those of latencies" + tails}},
		{"stolen without stamps", func(s *Summary, c *Client) { steal(s, 0.21, 0.02); c.Stamps.Received = false },
			[]string{"the host took CPU time away (210 ms in 10.0 s on 2 cores; 2.0 % in the worst second): " + ours}},
		{"throttled", func(s *Summary, c *Client) { c.ThrottledS = ptr(0.2) },
			[]string{"the container's CPU limit stopped the client (200 ms in 10.0 s on 2 cores): the tail of drift" + tails}},
		{"throttled without stamps", func(s *Summary, c *Client) { c.ThrottledS, c.Stamps = ptr(0.2), nil },
			[]string{"the container's CPU limit stopped the client (200 ms in 10.0 s on 2 cores): " + ours}},
		{"waited", func(s *Summary, c *Client) { c.LaneRunQueueS = ptr(0.1) }, nil},
		{"said in a reason", func(s *Summary, c *Client) {
			steal(s, 2, 0.5)
			s.DriftUS.P99, c.Late.Stolen = 8100, of(20, 0.1)
		}, nil},
		{"another cause in the reason", func(s *Summary, c *Client) {
			steal(s, 2, 0.5)
			s.DriftUS.P99, c.Late.Waited = 8100, of(20, 0.1)
		}, []string{"the host took CPU time away (2.00 s in 10.0 s on 2 cores; 50 % in the worst second): the tail of drift and, less, those of latencies" + tails}},
		{"said of the reads", func(s *Summary, c *Client) { steal(s, 2, 0.5); c.ReceiveLagUS.P99 = 7200 }, nil},
	} {
		s := watched()
		s.DriftUS.P99 = 10
		tt.change(s, &s.Client)
		if got := machineNotes(s); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// TestMachineInTheSummary: what is unknown is null, what is known is in seconds.
func TestMachineInTheSummary(t *testing.T) {
	c := NewCollector(urls(1))
	said := func(info RunInfo) string {
		k := c.Summary(info).Client
		text := ""
		for _, v := range []*float64{k.StolenS, k.StolenShare, k.StolenWorst, k.ThrottledS, k.RunQueueS, k.LaneRunQueueS} {
			if v == nil {
				text += " null"
			} else {
				text += fmt.Sprintf(" %g", *v)
			}
		}
		return text[1:] + fmt.Sprint(" ", k.Late != nil)
	}
	line := lossOf(0, Interval{EndNS: 2e9, CapacityNS: 4e9, LostNS: [Causes]int64{1e9, 2e9, 3e8}}, Interval{EndNS: 3e9, CapacityNS: 2e9, LostNS: [Causes]int64{2e9, 0, 1e8}})
	unknown := lossOf(0, Interval{EndNS: 1e9})
	unknown.Known = [Causes]bool{}
	noCapacity := lossOf(0, Interval{EndNS: 1e9})
	for _, tt := range []struct {
		name string
		info RunInfo
		want string
	}{
		{"nobody watched", RunInfo{}, "null null null null null null false"},
		{"all", RunInfo{Machine: &Machine{line, 5e9}, Late: &Late{}}, "3 0.5 1 2 5.4 0.4 true"},
		{"unknown", RunInfo{Machine: &Machine{unknown, record.None}, Late: &Late{}}, "null null null null null null true"},
		{"nothing lost", RunInfo{Machine: &Machine{noCapacity, 0}, Late: &Late{}}, "0 null null 0 0 0 true"},
	} {
		if got := said(tt.info); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
