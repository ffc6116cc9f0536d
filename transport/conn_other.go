//go:build !unix

package transport

import "net"

// newSocketSender has no non-blocking way here: the writing goroutine of queueSender serves instead.
func newSocketSender(*net.TCPConn) sender { return nil }
