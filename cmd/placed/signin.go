package main

import "github.com/placed-board/placed/transport"

// faceFlags are about who people are and how they reach the node.
type faceFlags struct {
	TrustedProxies []addresses `placeholder:"ADDRESS,..." help:"Addresses of caches and proxies in front, whose X-Forwarded-For tells the true address of a client."`
}

// apply puts the flags into the outer face's settings.
func (f *faceFlags) apply(config *transport.Config) error {
	config.TrustedProxies = prefixes(f.TrustedProxies)
	return nil
}
