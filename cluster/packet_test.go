package cluster

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestPacketGolden pins the bytes: nodes of the version before read them.
func TestPacketGolden(t *testing.T) {
	p := packet{board: "b1", protocol: 300, from: "h:1", fromRun: 1, toRun: 0xff}
	b := appendBytes(appendBytes(p.appendHead(nil), "one"), "")
	const golden = "504301026231ac0203683a310100000000000000ff000000000000000" + "36f6e6500"
	if got := hex.EncodeToString(b); got != golden {
		t.Fatalf("packet\n %s, golden\n %s", got, golden)
	}
	back, err := decodePacket(b)
	if err != nil || back.board != p.board || back.protocol != p.protocol || back.from != p.from || back.fromRun != 1 || back.toRun != 0xff {
		t.Fatalf("decoded %+v, %v", back, err)
	}
	var messages []string
	if err := back.each(func(m []byte) { messages = append(messages, string(m)) }); err != nil || len(messages) != 2 || messages[0] != "one" || messages[1] != "" {
		t.Fatalf("messages %q, %v", messages, err)
	}
}

func FuzzPacket(f *testing.F) {
	f.Add(appendBytes((&packet{board: "b", protocol: 1, from: "a:1", fromRun: 1, toRun: 2}).appendHead(nil), "message"))
	f.Add([]byte("PC\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePacket(b)
		if err != nil {
			return
		}
		again := append(p.appendHead(nil), p.messages...)
		if q, err := decodePacket(again); err != nil || q.board != p.board || q.from != p.from || !bytes.Equal(q.messages, p.messages) {
			t.Fatalf("%+v became %+v, %v", p, q, err)
		}
		_ = p.each(func([]byte) {})
	})
}

func FuzzMeta(f *testing.F) {
	f.Add(meta{Board: "b", Protocol: 1, Incarnation: 7, State: Serving}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if back, err := decodeMeta(m.encode()); err != nil || back != m {
			t.Fatalf("%+v became %+v, %v", m, back, err)
		}
	})
}
