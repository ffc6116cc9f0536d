package transport

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/placed-board/placed/internal/reload"
)

// TLS of the public listener, for hosts without a proxy in front. The certificate is read anew when its files change; until a
// changed pair is whole and fits, the one before is served.

// openCertificate reads the certificate, if one is configured.
func (s *Server) openCertificate() error {
	if s.cfg.CertFile == "" {
		return nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(s.cfg.CertFile, s.cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("transport: certificate %s with key %s: %w", s.cfg.CertFile, s.cfg.KeyFile, err)
		}
		return &pair, nil
	}
	var err error
	s.certificate, err = reload.Open(load, s.reloaded(reloadCertificate), s.cfg.CertFile, s.cfg.KeyFile)
	return err
}

// reloaded returns what counts and logs the reloads of one kind of file.
func (s *Server) reloaded(what string) func(error) {
	return func(err error) {
		if err != nil {
			s.metrics.reloadsFailed[what].Inc()
			s.log.Warn("changed files cannot be used, what was read before stays", "what", what, "err", err)
			return
		}
		s.metrics.reloads[what].Inc()
		s.log.Info("read anew", "what", what)
	}
}

// secured puts TLS around the listener, if there is a certificate. HTTP/2 is not offered: a session is an upgraded HTTP/1.1
// connection, and the limits count connections.
func (s *Server) secured(ln net.Listener) net.Listener {
	if s.certificate == nil {
		return ln
	}
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.certificate.Get(), nil
		},
	})
}

// certificateEnd returns when the certificate ends, as Unix seconds; 0 without one.
func (s *Server) certificateEnd() float64 {
	if s.certificate == nil {
		return 0
	}
	leaf := s.certificate.Get().Leaf
	if leaf == nil {
		return 0
	}
	return float64(leaf.NotAfter.UnixNano()) / float64(time.Second)
}
