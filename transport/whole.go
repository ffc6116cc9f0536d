package transport

import (
	"net"
	"net/http"
	"sync"
)

// heldHeadBytes is what net/http writes at first of an answer that is longer: its own buffer, full.
const heldHeadBytes = 4096

// heldHead is the beginning of an answer that waits for the rest, so that the kernel takes both by one call.
type heldHead struct {
	buffer [heldHeadBytes]byte
	n      int
	parts  [2][]byte
	vector net.Buffers
}

var heldHeads = sync.Pool{New: func() any { return new(heldHead) }}

// writeWhole writes a body of which all is at hand. net/http writes its buffer, which holds the header and the first bytes,
// and then the rest: two calls for the kernel, a small segment, and a client that wakes up for it. Here both go out as one.
func writeWhole(w http.ResponseWriter, r *http.Request, body []byte) {
	c, ok := r.Context().Value(peerConnKey{}).(*peerConn)
	if !ok || r.TLS != nil || r.ProtoMajor != 1 {
		w.Write(body)
		return
	}
	if c.carrier != nil {
		c = c.carrier
	}
	head := heldHeads.Get().(*heldHead)
	c.head = head
	w.Write(body)
	c.head = nil
	if head.n > 0 { // net/http had no second part to write
		c.Conn.Write(head.buffer[:head.n]) // an error of the connection shows at its next write
	}
	head.n = 0
	heldHeads.Put(head)
}

// Write implements net.Conn.
func (c *peerConn) Write(p []byte) (int, error) {
	h := c.head
	switch {
	case h == nil:
		return c.Conn.Write(p)
	case h.n == 0 && len(p) <= len(h.buffer):
		h.n = copy(h.buffer[:], p)
		return len(p), nil
	}
	held := h.n
	h.parts = [2][]byte{h.buffer[:held], p}
	h.vector, h.n = h.parts[:], 0
	n, err := h.vector.WriteTo(c.Conn)
	h.parts = [2][]byte{}
	return max(0, int(n)-held), err
}
