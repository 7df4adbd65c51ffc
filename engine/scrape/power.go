package scrape

// power adds up what the GPUs of one page took from its first to its last sample.
type power struct {
	last            Sample // with GPUs
	joules, seconds float64
}

// add takes the next sample. Power, which is taken to change evenly, comes before the counter of energy: the exporter reads both every 30 s
// by default, and the first value of a counter is older than its sample by an unknown time.
func (p *power) add(m *Sample) {
	was, span := p.last, float64(m.AtNS-p.last.AtNS)/1e9
	switch {
	case m.GPUs == 0:
		return
	case was.GPUs != m.GPUs || span <= 0: // the first, or a GPU came or went
	case was.PowerW != nil && m.PowerW != nil:
		p.joules, p.seconds = p.joules+(*was.PowerW+*m.PowerW)/2*span, p.seconds+span
	case was.EnergyMJ != nil && m.EnergyMJ != nil && *m.EnergyMJ >= *was.EnergyMJ:
		p.joules, p.seconds = p.joules+(*m.EnergyMJ-*was.EnergyMJ)/1e3, p.seconds+span
	}
	p.last = *m
}

// addTo adds the mean power to that of a server's other pages.
func (p *power) addTo(out *Server) {
	if p.seconds > 0 {
		watts := p.joules / p.seconds
		out.GPUs += int64(p.last.GPUs)
		addTo(&out.PowerW, &watts)
	}
}
