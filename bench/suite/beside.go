package main

import (
	"fmt"
	"path/filepath"
	"strconv"
)

const (
	httpsName    = "https/500-constant-20kB"
	overHTTP     = ", http"
	overHTTPS    = ", https"
	windowName   = "window/2000-constant-20kB"
	allPrebuilt  = ", all prebuilt"
	quarterBuilt = ", a quarter in memory"
)

// httpsLoad is a quarter of the main load: its handshakes and its encryption, done twice on this machine, leave both cores
// time, so that what differs is the client and not the mock.
var httpsLoad = load{rate: 500, arrival: "constant", tokens: 3300, seconds: 6}

func besideScenarios() []scenario {
	return []scenario{
		{httpsName, fmt.Sprintf("%d requests/s of 20 kB over https, the same over http beside it", httpsLoad.rate), runHTTPS},
		{windowName, "the main load with room for a quarter of its requests, beside all of them prebuilt", runWindow},
	}
}

// runHTTPS gives each a mock of its own, so that neither shares the machine with the other's.
func runHTTPS(r *round) error {
	path, err := r.trace(httpsLoad.gen(httpsLoad.rows(r.lab))...)
	if err != nil {
		return err
	}
	ca := filepath.Join(r.work, "ca.pem")
	best := r.best()
	against := func(suffix string, ours []string, mocks ...string) subject {
		who := us(best) + suffix
		return subject{who, func() error {
			m, err := r.serve(nil, append(httpsLoad.mock(), mocks...)...)
			if err != nil {
				return err
			}
			defer func() { _ = m.stop() }()
			_, err = r.measureDrift(who, best, m.url, append(ours, "--trace", path)...)
			return err
		}}
	}
	return r.alternate(
		against(overHTTP, nil),
		against(overHTTPS, []string{"--ca-cert", ca}, "--tls-self-signed", "--tls-ca", ca),
	)
}

func runWindow(r *round) error {
	rows := mainLoad.rows(r.lab)
	path, err := r.trace(mainLoad.gen(rows)...)
	if err != nil {
		return err
	}
	m, err := r.serve(nil, mainLoad.mock()...)
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }()
	best := r.best()
	quarter := strconv.Itoa(rows * mainLoad.tokens * bytesPerToken / 4)
	return r.alternate(
		subject{us(best) + allPrebuilt, func() error {
			_, err := r.measureDrift(us(best)+allPrebuilt, best, m.url, "--trace", path)
			return err
		}},
		subject{us(best) + quarterBuilt, func() error {
			o, err := r.measureDrift(us(best)+quarterBuilt, best, m.url, "--trace", path, "--max-memory", quarter)
			if err == nil {
				err = r.putBuildAhead(us(best)+quarterBuilt, o)
			}
			return err
		}},
	)
}

func (r *round) putBuildAhead(who string, o *outcome) error {
	b := o.summary.BuildAhead
	if b == nil {
		return fmt.Errorf("summary.json has no build_ahead: everything was built before the start")
	}
	r.put(who, "room / wire bytes", ratio, float64(b.WindowBytes)/float64(o.summary.Client.WireBytes))
	if b.LeastLeadMS != nil {
		r.put(who, "least lead", nanoseconds, *b.LeastLeadMS*ms)
	}
	r.put(who, "built late", count, float64(b.Late))
	return nil
}
