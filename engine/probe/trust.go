package probe

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Trust is whom connections to https servers trust: who has a certificate of a file (PEM; "" = of the system), or
// anybody.
func Trust(file string, anybody bool) (*tls.Config, error) {
	// Records of full size from the start: a 20 kB request is two writes, not fifteen.
	cfg := &tls.Config{
		InsecureSkipVerify:          anybody,
		DynamicRecordSizingDisabled: true,
		NextProtos:                  []string{"http/1.1"},
	}
	if file == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--ca-cert: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca-cert %s: no certificate in it; want PEM", file)
	}
	return cfg, nil
}
