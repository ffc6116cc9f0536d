package cluster

import (
	"encoding/binary"
	"errors"
)

// A packet carries messages from one node to another. Its head says who speaks to whom: a packet that waited while a process
// at that address ended reaches the next one there, which must not take it.
//
//	magic 'P' 'C', version 1
//	board     uvarint length, bytes
//	protocol  uvarint
//	from      uvarint length, address; 8 bytes incarnation
//	to        8 bytes incarnation
//	messages  each: uvarint length, bytes
type packet struct {
	board    string
	protocol uint16
	from     string
	fromRun  uint64
	toRun    uint64
	messages []byte // encoded
}

var packetMagic = []byte{'P', 'C', 1}

// errPacket says that bytes are no packet of ours.
var errPacket = errors.New("cluster: malformed packet")

// appendHead appends the head; encoded messages follow.
func (p *packet) appendHead(dst []byte) []byte {
	dst = append(dst, packetMagic...)
	dst = appendBytes(dst, p.board)
	dst = binary.AppendUvarint(dst, uint64(p.protocol))
	dst = appendBytes(dst, p.from)
	dst = binary.LittleEndian.AppendUint64(dst, p.fromRun)
	return binary.LittleEndian.AppendUint64(dst, p.toRun)
}

func appendBytes[B ~string | ~[]byte](dst []byte, b B) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// decodePacket reads the head. messages aliases b.
func decodePacket(b []byte) (packet, error) {
	var p packet
	if len(b) < len(packetMagic) || string(b[:len(packetMagic)]) != string(packetMagic) {
		return p, errPacket
	}
	b = b[len(packetMagic):]
	board, b, ok := cutBytes(b, boardBytesMax)
	protocol, n := binary.Uvarint(b)
	if !ok || n <= 0 || protocol > 1<<16-1 {
		return p, errPacket
	}
	from, b, ok := cutBytes(b[n:], addressBytesMax)
	if !ok || len(b) < 16 {
		return p, errPacket
	}
	p.board, p.protocol, p.from = string(board), uint16(protocol), string(from)
	p.fromRun, p.toRun = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	p.messages = b[16:]
	return p, nil
}

// each visits the messages; they alias the packet.
func (p *packet) each(visit func([]byte)) error {
	for rest := p.messages; len(rest) > 0; {
		message, after, ok := cutBytes(rest, len(rest))
		if !ok {
			return errPacket
		}
		visit(message)
		rest = after
	}
	return nil
}

// cutBytes takes a length and so many bytes, at most most.
func cutBytes(b []byte, most int) (cut, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(most) || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}
