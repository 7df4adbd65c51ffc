package capacity

import (
	"fmt"
	"math"
	"time"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Replicas is how many instances each minute of a trace would have needed, by the capacity of one. An autoscaler that
// knows the future, keeps one and starts the others at once needs as many. A request of any minute counts as
// one of those that were measured.
type Replicas struct {
	RequestsPerS float64 `json:"requests_per_s"` // that one instance carries
	// by the lower end of its interval; 0 if that is not known
	RequestsPerSAtLow float64 `json:"requests_per_s_at_low"`
	EachMinute        []int   `json:"each_minute"` // instances; at least one
	Peak              int     `json:"peak"`        // instances
	Mean              float64 `json:"mean"`        // instances
	InstanceHours     float64 `json:"instance_hours"`
	// by the lower end of the interval of what one carries; 0 if that is not known
	InstanceHoursAtLow float64 `json:"instance_hours_at_low"`
}

// Replicas returns what the trace would have needed if an instance carries so many requests per s, or only low. nil if
// nobody knows what one carries. The timeline has the trace's times.
func (t Timeline) Replicas(perS, low float64) *Replicas {
	if !(perS > 0) || len(t) == 0 {
		return nil
	}
	r := &Replicas{RequestsPerS: perS, RequestsPerSAtLow: max(0, low)}
	end := t[len(t)-1] + 1
	// instance-seconds
	var total, totalAtLow float64
	for from := int64(0); from < end; from += int64(time.Minute) {
		minute := Stretch{from, min(end, from+int64(time.Minute))}
		seconds := float64(minute.ToNS-minute.FromNS) / 1e9
		came := float64(t.count(minute)) / max(1, seconds)
		n := max(1, math.Ceil(came/perS))
		r.EachMinute = append(r.EachMinute, int(n))
		r.Peak = max(r.Peak, int(n))
		total += n * seconds
		totalAtLow += max(1, math.Ceil(came/low)) * seconds
	}
	r.Mean = total / (float64(end) / 1e9)
	r.InstanceHours = total / 3600
	if low > 0 {
		r.InstanceHoursAtLow = totalAtLow / 3600
	}
	return r
}

// Words say how many instances were needed, by what so many carried together. Replicas that are nil have none.
func (r *Replicas) Words(measured int) string {
	if r == nil {
		return ""
	}
	text := "The one instance that was measured carries "
	if measured > 1 {
		text = fmt.Sprintf("Each of the %d instances that were measured carries ", measured)
	}
	text += format.Rate(r.RequestsPerS) + " requests/s"
	if r.RequestsPerSAtLow > 0 {
		text += " (" + format.Rate(r.RequestsPerSAtLow) + " by the lower end of the interval)"
	}
	text += fmt.Sprintf(", so the trace as recorded needs %s like it in its busiest minute, and %s on average",
		format.Count(int64(r.Peak)), format.Number(r.Mean, 2))
	return text + "."
}

// section is the part of a page about instances over time; empty of so few that words tell it.
func (r *Replicas) section() (drawn chart.Section) {
	const least = 4 // minutes
	if r == nil || r.Peak == 1 || len(r.EachMinute) < least {
		return drawn
	}
	g := chart.Graph{
		Title: "Instances needed in each minute",
		Wide:  true,
		X: chart.Axis{
			Label: "minute of the trace",
			From:  new(0.0),
			To:    new(float64(len(r.EachMinute))),
			Step:  1,
		},
		Y: chart.Axis{From: new(0.0)},
	}
	values := chart.Values{}
	for i, n := range r.EachMinute {
		g.At = append(g.At, float64(i)+0.5)
		values = append(values, float64(n))
	}
	g.Series = []chart.Series{{
		Name:   "instances",
		Style:  chart.Bars,
		Values: values,
	}}
	return chart.Section{
		Title: "Instances over time",
		Note: "An autoscaler that knows the future and keeps one instance needs as many. That holds as far as " +
			"requests of all minutes cost what the measured ones did.",
		Graphs: []chart.Graph{g},
	}
}
