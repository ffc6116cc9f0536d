package main

import (
	"crypto/tls"
	"fmt"

	"github.com/placed-board/placed/transport"
)

// faceFlags are about who people are and how they reach the node.
type faceFlags struct {
	TLSCert        string      `type:"path" help:"Certificate of the public listener with its chain, PEM; read anew when it changes."`
	TLSKey         string      `type:"path" help:"Its key, PEM."`
	TrustedProxies []addresses `placeholder:"ADDRESS,..." help:"Addresses of caches and proxies in front, whose X-Forwarded-For tells the true address of a client."`
}

// apply puts the flags into the outer face's settings. Files are looked at now, before anything is written.
func (f *faceFlags) apply(config *transport.Config) error {
	config.CertFile, config.KeyFile = f.TLSCert, f.TLSKey
	config.TrustedProxies = prefixes(f.TrustedProxies)
	if f.TLSCert == "" || f.TLSKey == "" {
		return nil // Validate tells of one without the other
	}
	if _, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey); err != nil {
		return fmt.Errorf("--tls-cert %s with --tls-key %s: %w", f.TLSCert, f.TLSKey, err)
	}
	return nil
}

// scheme returns how the public listener's addresses begin.
func (f *faceFlags) scheme() string {
	if f.TLSCert != "" {
		return "https://"
	}
	return "http://"
}
