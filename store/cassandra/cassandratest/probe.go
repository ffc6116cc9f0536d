package cassandratest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// The few words of the CQL binary protocol, version 4, that ask a node whether it serves queries. They are spoken here
// without a driver, so that a driver's reconnects, pools and logs have no part in what "ready" means.
const (
	cqlRequest  = 0x04
	cqlResponse = 0x84

	opReady   = 0x02
	opStartup = 0x01
	opQuery   = 0x07
	opResult  = 0x08

	consistencyOne = 0x0001
	frameHeader    = 9
	frameMax       = 1 << 20
	probeWaitMax   = 5 * time.Second // for one whole probe
)

const probeQuery = "SELECT release_version FROM system.local"

// probe opens a connection, starts the protocol and reads one row of a system table.
func probe(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, probeWaitMax)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	startup := binary.BigEndian.AppendUint16(nil, 1) // a map of one entry
	startup = appendShort(appendShort(startup, "CQL_VERSION"), "3.0.0")
	if err := exchange(conn, opStartup, startup, opReady); err != nil {
		return fmt.Errorf("startup: %w", err)
	}
	query := binary.BigEndian.AppendUint32(nil, uint32(len(probeQuery)))
	query = append(query, probeQuery...)
	query = binary.BigEndian.AppendUint16(query, consistencyOne)
	query = append(query, 0) // no flags: no values, no paging
	if err := exchange(conn, opQuery, query, opResult); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// exchange sends one request and wants an answer of the given kind; the answer's body is read and dropped.
func exchange(conn net.Conn, op byte, body []byte, want byte) error {
	frame := []byte{cqlRequest, 0, 0, 0, op}
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body)))
	if _, err := conn.Write(append(frame, body...)); err != nil {
		return err
	}
	var header [frameHeader]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(header[5:])
	if header[0] != cqlResponse || header[4] != want || size > frameMax {
		return fmt.Errorf("answer is version %#x, kind %#x, %d bytes; want version %#x, kind %#x", header[0], header[4], size, cqlResponse, want)
	}
	_, err := io.CopyN(io.Discard, conn, int64(size))
	return err
}

func appendShort(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
