package verdict

import (
	"testing"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// watched is a sound run of 10 s on 2 cores whose client was watched and lost nothing, with 20 requests late.
func watched() *metrics.Summary {
	s := sound()
	s.DriftUS, s.Requests.Late, s.Limits.MaxDriftNS = &stats.Percentiles{P99: 8100}, 20, 5e6
	s.Client.Realtime = true
	s.Client.Stamps = &metrics.Stamps{Received: true, Reads: 10_000}
	s.Client.ReceiveLagUS = &stats.Percentiles{P99: 100}
	s.Client.Machine = stats.Machine{StolenS: new(0.0), StolenShare: new(0.0), StolenWorst: new(0.0), ThrottledS: new(0.0), RunQueueS: new(0.0), SenderRunQueueS: new(0.0)}
	return s
}

func steal(s *metrics.Summary, seconds, worst float64) {
	s.Client.StolenS, s.Client.StolenShare, s.Client.StolenWorst = new(seconds), new(seconds/20), new(worst)
}

const (
	driftIs    = "drift p99 is 8.100 ms, above --max-drift 5 ms: requests left late (p50 0 ns, p99 8.10 ms, max 0 ns)"
	nobody     = driftIs + "; no cause was seen on this machine: give the client more or idle cores, or lower --scale"
	byHost     = "run on a machine whose CPUs are its own"
	byLimit    = "raise the CPU limit (resources.limits.cpu in Kubernetes) or remove it"
	byShortage = "give the client more or idle cores, or lower --scale"
)

func TestWhyDrift(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *metrics.Summary, c *metrics.Client)
		want   string
	}{
		{"nobody watched", func(s *metrics.Summary, c *metrics.Client) { c.Machine = stats.Machine{} }, nobody},
		{"nothing happened", func(*metrics.Summary, *metrics.Client) {}, nobody},
		{"a run without a length", func(s *metrics.Summary, c *metrics.Client) {
			s.Run.DurationS, c.ThrottledS, c.SenderRunQueueS = 0, new(1.0), new(1.0)
		}, nobody},
		{"one per cent of everything", func(s *metrics.Summary, c *metrics.Client) {
			steal(s, 0.2, 0.9)
			c.ThrottledS, c.SenderRunQueueS, c.Senders = new(0.1), new(0.3), 3
			s.BuildAhead = &metrics.BuildAhead{LeastLeadMS: new(-9.0), Late: 10}
			s.Cap = &metrics.Cap{Held: 10, HeldMS: &stats.Percentiles{Max: 9}}
		}, nobody},
		{"connections that waited far too little", func(s *metrics.Summary, _ *metrics.Client) {
			s.Connections = metrics.Connections{NotReady: 60, MaxWaitMS: 0.8}
		}, nobody},
		{"connections that waited", func(s *metrics.Summary, _ *metrics.Client) {
			s.Connections = metrics.Connections{NotReady: 60, MaxWaitMS: 8}
		}, driftIs + ": 60 requests found no open connection (longest wait 8.00 ms): check whether the server accepts slowly, or the descriptor limit is low (ulimit -n)"},
		{"waits of threads that do not send", func(s *metrics.Summary, c *metrics.Client) { c.RunQueueS = new(9.0) }, nobody},
		{"the host", func(s *metrics.Summary, c *metrics.Client) { steal(s, 0.202, 0.054) },
			driftIs + ": the host took CPU time away (202 ms, 1.01 % of all cores' time; 5.40 % in the worst second): " + byHost},
		{"the limit", func(s *metrics.Summary, c *metrics.Client) { c.ThrottledS = new(0.101) },
			driftIs + ": the container's CPU limit stopped the client (101 ms, 1.01 % of one core's time): " + byLimit},
		{"the limit, on several cores", func(s *metrics.Summary, c *metrics.Client) { c.ThrottledS = new(12.54) },
			driftIs + ": the container's CPU limit stopped the client (12.5 s, 125 % of one core's time): " + byLimit},
		{"short of CPU", func(s *metrics.Summary, c *metrics.Client) { c.SenderRunQueueS, c.Senders = new(0.302), 3 },
			driftIs + ": the sending threads waited for a core (302 ms, 1.01 % of their time): " + byShortage},
		{"short of CPU without priority", func(s *metrics.Summary, c *metrics.Client) {
			c.SenderRunQueueS, c.Senders, c.Realtime = new(1.25), 1, false
		},
			driftIs + ": the sending threads waited for a core (1.25 s, 12.5 % of their time): give the client more or idle cores and real-time priority (root or CAP_SYS_NICE), or lower --scale"},
		{"not built in time", func(s *metrics.Summary, c *metrics.Client) {
			s.BuildAhead = &metrics.BuildAhead{WindowBytes: 1e6, LeastLeadMS: new(-25.5), Late: 11}
		}, driftIs + ": 11 requests not built in time (1.00 MB at a time, least lead -25.5 ms): raise --max-memory, give the client more cores, or lower --scale"},
		{"all built in time", func(s *metrics.Summary, c *metrics.Client) {
			s.BuildAhead = &metrics.BuildAhead{WindowBytes: 1e6, LeastLeadMS: new(25.5)}
		}, nobody},
		{"the cap", func(s *metrics.Summary, c *metrics.Client) {
			s.Cap = &metrics.Cap{InFlight: 8, Held: 11, HeldMS: &stats.Percentiles{P50: 2, Max: 5.2}}
		}, driftIs + ": the cap of 8 in flight held back 11 requests (p50 2.00 ms, max 5.20 ms): the server did not meet the load as planned: raise --concurrency, or lower --scale"},
		{"a cap that explains it all", func(s *metrics.Summary, c *metrics.Client) {
			s.Cap = &metrics.Cap{InFlight: 8, Held: 300, HeldMS: &stats.Percentiles{P50: 2, P99: 7.3, Max: 9}}
			steal(s, 3, 0.5)
		}, driftIs + ": the cap of 8 in flight held back 300 requests (p50 2.00 ms, max 9.00 ms): the server did not meet the load as planned: raise --concurrency, or lower --scale"},
		{"a cap that held nothing for longer than drift may be", func(s *metrics.Summary, c *metrics.Client) {
			s.Cap = &metrics.Cap{InFlight: 8, Held: 500, HeldMS: &stats.Percentiles{P50: 0.2, Max: 5}}
		}, nobody},
		{"a cap that held nothing", func(s *metrics.Summary, c *metrics.Client) { s.Cap = &metrics.Cap{InFlight: 8} }, nobody},
		{"everything", func(s *metrics.Summary, c *metrics.Client) {
			s.Cap = &metrics.Cap{InFlight: 8, Held: 300, HeldMS: &stats.Percentiles{P50: 2, Max: 5.2}}
			s.BuildAhead = &metrics.BuildAhead{WindowBytes: 1e6, LeastLeadMS: new(-25.5), Late: 14}
			steal(s, 3, 0.5)
			c.ThrottledS, c.SenderRunQueueS, c.RunQueueS, c.Senders = new(1.25), new(1.1), new(7.0), 1
		}, driftIs + ": the cap of 8 in flight held back 300 requests (p50 2.00 ms, max 5.20 ms)" +
			"; 14 requests not built in time (1.00 MB at a time, least lead -25.5 ms)" +
			"; the host took CPU time away (3.00 s, 15.0 % of all cores' time; 50.0 % in the worst second)" +
			"; the container's CPU limit stopped the client (1.25 s, 12.5 % of one core's time)" +
			"; the sending threads waited for a core (1.10 s, 11.0 % of their time): " +
			"the server did not meet the load as planned: raise --concurrency, or lower --scale; " +
			"raise --max-memory, give the client more cores, or lower --scale; " + byHost + "; " + byLimit + "; " + byShortage},
	} {
		s := watched()
		tt.change(s, &s.Client)
		if got := said(Judge(s)); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

func TestWhyReadLate(t *testing.T) {
	const readLate = "receive lag p99 is 7.200 ms, above --max-receive-lag 5 ms: answers were read late (p99 7.20 ms), so token chunks that came apart were found together, or the server waited for room in a full buffer"
	for _, tt := range []struct {
		name   string
		change func(s *metrics.Summary, c *metrics.Client)
		want   string
	}{
		{"nobody watched", func(s *metrics.Summary, c *metrics.Client) { c.Machine = stats.Machine{} }, "; no cause was seen on this machine: give the client more cores"},
		{"one per cent of everything", func(s *metrics.Summary, c *metrics.Client) {
			steal(s, 0.2, 0.9)
			c.ThrottledS, c.RunQueueS = new(0.1), new(0.2)
		},
			"; no cause was seen on this machine: give the client more cores"},
		{"the host", func(s *metrics.Summary, c *metrics.Client) { steal(s, 0.5, 0.1) },
			": the host took CPU time away (500 ms, 2.50 % of all cores' time; 10.0 % in the worst second): " + byHost},
		{"the limit", func(s *metrics.Summary, c *metrics.Client) { c.ThrottledS = new(0.2) },
			": the container's CPU limit stopped the client (200 ms, 2.00 % of one core's time): " + byLimit},
		{"short of CPU", func(s *metrics.Summary, c *metrics.Client) { c.RunQueueS = new(0.202) },
			": the client's threads waited for a core (202 ms, 1.01 % of all cores' time): " + byShortage},
		{"cores that nobody counted are one", func(s *metrics.Summary, c *metrics.Client) { c.RunQueueS, s.Run.Host.CPUs = new(0.11), 0 },
			": the client's threads waited for a core (110 ms, 1.10 % of all cores' time): " + byShortage},
		{"the host, and so they did", func(s *metrics.Summary, c *metrics.Client) {
			steal(s, 0.5, 0.1)
			c.RunQueueS, c.Realtime = new(5.0), false
		},
			": the host took CPU time away (500 ms, 2.50 % of all cores' time; 10.0 % in the worst second); the client's threads waited for a core" +
				" (5.00 s, 25.0 % of all cores' time): " + byHost + "; give the client more or idle cores and real-time priority (root or CAP_SYS_NICE), or lower --scale"},
	} {
		s := watched()
		s.DriftUS.P99, s.Requests.Late = 10, 0
		s.Client.ReceiveLagUS, s.Limits.MaxReceiveLagNS = &stats.Percentiles{P99: 7200}, 5e6
		tt.change(s, &s.Client)
		if got := said(Judge(s)); len(got) != 1 || got[0] != readLate+tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, readLate+tt.want)
		}
	}
}
