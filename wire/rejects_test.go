package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/placed-board/placed/board"
)

type rejectCase struct {
	name      string
	direction string
	bytes     []byte
	why       string
}

// raw joins hexadecimal text, spaces ignored, and byte slices.
func raw(parts ...any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(p), []byte(" "), nil)))
			if err != nil {
				panic(err)
			}
			out = append(out, b...)
		case []byte:
			out = append(out, p...)
		}
	}
	return out
}

func uv(v uint64) []byte { return binary.AppendUvarint(nil, v) }

const (
	whyShort    = "it ends too early"
	whyBeyond   = "a count beyond the end"
	whyChunk    = "a chunk beyond the largest board"
	whyTwice    = "a chunk twice"
	whyRect     = "a rectangle beyond the largest board"
	whyTrail    = "bytes after its end"
	whyFlag     = "an unknown flag"
	whyType     = "an unknown type of message"
	whyTile     = "a tile beyond its chunk"
	whyKind     = "an unknown kind of section"
	whyCount    = "a count of tiles that belongs into the descriptor"
	whyPadded   = "a number that is padded"
	whySettings = "settings that are not settings in JSON"
	whyAbove64  = "a number above 64 bits"
)

func rejectCases() []rejectCase {
	var all []rejectCase
	for _, part := range [][]rejectCase{clientRejects(), nodeRejects(), frameRejects(), bodyRejects()} {
		all = append(all, part...)
	}
	return all
}

func clientRejects() []rejectCase {
	nonce := "0102030405060708"
	tooMany := raw("03", uv(RepairChunksMax+1))
	for range RepairChunksMax + 1 {
		tooMany = append(tooMany, 1, 0)
	}
	return []rejectCase{
		{"nothing", fromClient, []byte{}, whyShort},
		{"type 0", fromClient, raw("00"), whyType},
		{"a node's type", fromClient, raw("82 00"), whyType},
		{"an oversized message", fromClient, make([]byte, ClientMessageBytesMax+1), "a client's message above 1,024 bytes"},
		{"subscribe without flags", fromClient, raw("01"), whyShort},
		{"subscribe with an unknown flag", fromClient, raw("01 05"), whyFlag},
		{"subscribe with a cut resume", fromClient, raw("01 03", nonce, nonce), whyShort},
		{"subscribe with trailing bytes", fromClient, raw("01 01 00"), whyTrail},
		{"subscribe to a column too far", fromClient, raw("01 00", uv(201), "00 00 00"), whyRect},
		{"subscribe across the right edge", fromClient, raw("01 00", uv(199), "00 02 01"), whyRect},
		{"subscribe across the lower edge", fromClient, raw("01 00 00", uv(200), "01 01"), whyRect},
		{"subscribe to 1,601 chunks", fromClient, raw("01 00 00 00", uv(43), uv(38)), "a rectangle of too many chunks"},
		{"place without a colour", fromClient, raw("02 01", nonce, "00 00"), whyShort},
		{"place with a cut nonce", fromClient, raw("02 01 01020304"), whyShort},
		{"place with a padded turn", fromClient, raw("02 8100", nonce, "00 00 00"), whyPadded},
		{"place with a turn above 64 bits", fromClient, raw("02 ffffffffffffffffff02", nonce, "00 00 00"), whyAbove64},
		{"place with a colour above 31 bits", fromClient, raw("02 01", nonce, "00 00", uv(1<<31)), "a colour above 31 bits"},
		{"place with trailing bytes", fromClient, raw("02 01", nonce, "00 00 00 00"), whyTrail},
		{"repair with a count beyond the end", fromClient, raw("03 02 0001"), whyBeyond},
		{"repair with a huge count", fromClient, raw("03 ffffffffffffffffff01"), whyBeyond},
		{"repair of 101 chunks", fromClient, tooMany, "too many chunks"},
		{"repair of a chunk twice", fromClient, raw("03 02 0101 0001"), whyTwice},
		{"repair of an invalid column", fromClient, raw("03 01", uv(200), "01"), whyChunk},
		{"repair of an invalid row", fromClient, raw("03 01", uv(200<<8), "01"), whyChunk},
		{"repair of a chunk that wraps round", fromClient, raw("03 02 0101", uv(1<<16-1), "01"), whyChunk},
		{"repair of a chunk that wraps round 64 bits", fromClient, raw("03 02 0101", uv(1<<64-1), "01"), whyChunk},
		{"get hashes of 401 chunks", fromClient, raw("04 00 00 01", uv(200), "00"), whyTrail},
		{"get hashes of 402 chunks", fromClient, raw("04 00 00 03", uv(134)), "a rectangle of too many chunks"},
		{"get hashes, cut", fromClient, raw("04 00 00 01"), whyShort},
	}
}

func nodeRejects() []rejectCase {
	eight := "0102030405060708"
	hello := func(protocol, rest string) []byte { return raw("80", protocol, eight, eight, "01 01 01", rest) }
	return []rejectCase{
		{"nothing from a node", fromNode, []byte{}, whyShort},
		{"a client's type", fromNode, raw("01 01"), whyType},
		{"hello of another protocol", fromNode, hello("02", "00 00 02 7b7d"), "protocol version 2, this program speaks 1"},
		{"hello with an unknown flag", fromNode, hello("01", "02"), whyFlag},
		{"hello with a user beyond the end", fromNode, hello("01", "00 05 61"), whyBeyond},
		{"hello with a long user", fromNode, hello("01", "00 31"+hex.EncodeToString(bytes.Repeat([]byte("u"), 49))+"02 7b7d"), "a text that is too long or not UTF-8"},
		{"hello with a user that is not UTF-8", fromNode, hello("01", "00 01 ff 02 7b7d"), "a text that is too long or not UTF-8"},
		{"hello with settings beyond the end", fromNode, hello("01", "00 00 03 7b7d"), whyBeyond},
		{"hello with settings that are no object", fromNode, hello("01", "00 00 02 5b5d"), whySettings},
		{"base with a count beyond the end", fromNode, raw("81 01 00 03 0001 0101"), whyBeyond},
		{"base with an unknown flag", fromNode, raw("81 01 02 00"), whyFlag},
		{"base with a chunk twice", fromNode, raw("81 01 00 02 0501 0001"), whyTwice},
		{"heartbeat, cut", fromNode, raw("84 01 01 01", eight, "01020304"), whyShort},
		{"heartbeat with trailing bytes", fromNode, raw("84 01 01 01", eight, eight, "00"), whyTrail},
		{"me with a wait above 63 bits", fromNode, raw("85 01", uv(1<<63), "00"), "a time above 63 bits"},
		{"placed with an unknown flag", fromNode, raw("86 08 01", eight, "00 00 00 00 00"), whyFlag},
		{"placed on an invalid chunk", fromNode, raw("86 00 01", eight, "00 00 00", uv(250), "01 00 00"), whyChunk},
		{"placed, cut", fromNode, raw("86 03 01 01", eight, "00 00 00 00"), whyShort},
		{"settings changed without settings", fromNode, raw("87 01 00"), whySettings},
		{"chunk hashes with a count beyond the end", fromNode, raw("88 01 02 0001", eight, "01"), whyBeyond},
		{"notice with a long detail", fromNode, raw("89 0d 00", uv(201), bytes.Repeat([]byte("d"), 201)), "a text that is too long or not UTF-8"},
		{"move, cut", fromNode, raw("8a"), whyShort},
	}
}

func frameRejects() []rejectCase {
	return []rejectCase{
		{"frame without a tick", fromNode, raw("82"), whyShort},
		{"frame with a padded tick", fromNode, raw("82 8000"), whyPadded},
		{"frame with a cut head of a section", fromNode, raw("82 01 80"), whyShort},
		{"frame with half a tile", fromNode, raw("82 01 00 01"), whyBeyond},
		{"frame with trailing garbage", fromNode, raw("82 01 00 0100 ff"), whyShort},
		{"frame with a chunk twice", fromNode, raw("82 01 02 0100 00 0100"), whyTwice},
		{"frame with descending chunks", fromNode, raw("82 01 04 0100", uv((1<<16-1)<<1), "0100"), whyChunk},
		{"frame with an invalid column", fromNode, raw("82 01", uv(200<<1), "0100"), whyChunk},
		{"frame with an invalid row", fromNode, raw("82 01", uv(200<<9), "0100"), whyChunk},
		{"frame with a chunk above 16 bits", fromNode, raw("82 01", uv(1<<17), "0100"), whyChunk},
		{"frame with a huge chunk", fromNode, raw("82 01", uv(1<<64-2), "0100"), whyChunk},
		{"frame with tile 2500", fromNode, raw("82 01 00 409c"), whyTile},
		{"frame with tile 2500 at width 8", fromNode, raw("82 01 01 0c c40901"), whyTile},
		{"frame without a descriptor", fromNode, raw("82 01 01"), whyShort},
		{"frame with an unknown kind", fromNode, raw("82 01 01 0b"), whyKind},
		{"frame with a count beyond the end", fromNode, raw("82 01 01 18 0100 0200"), whyBeyond},
		{"frame with a huge count", fromNode, raw("82 01 01 00 ffffffffffffffffff01"), whyBeyond},
		{"frame with a count of 0", fromNode, raw("82 01 01 00 00"), whyCount},
		{"frame with a count of 31 apart", fromNode, raw("82 01 01 00 1f", make([]byte, 62)), whyCount},
		{"frame with a run of one that needs no descriptor", fromNode, raw("82 01 01 08 0100"), "a single tile that needs no descriptor"},
		{"frame with a patch that advances too little", fromNode, raw("82 01 01 11 01 0100 0200"), "a patch that advances by less than its tiles"},
		{"frame with a count in an image", fromNode, raw("82 01 01 0a 01", make([]byte, 1250)), "an image with a count of tiles"},
		{"repair frame with a tile that does not say where it begins", fromNode, raw("83 01 00 0100"), "a repair that does not say where it begins"},
		{"repair frame with a run that does not say where it begins", fromNode, raw("83 01 01 08 0100"), whyBeyond},
		{"frame with a cut image", fromNode, raw("82 01 01 02 01", make([]byte, 1249)), whyShort},
		{"frame with a cut image at width 8", fromNode, raw("82 01 01 06 01", make([]byte, 2499)), whyShort},
	}
}

func bodyRejects() []rejectCase {
	good := AppendBoard(nil, &BoardBody{Epoch: 1, Incarnation: 2, Tick: 3, Width: 100, Height: 50, ColourWidth: board.Width4, Chunks: []BodyChunk{
		{0, 1, make([]byte, 1250)}, {1, 2, make([]byte, 1250)},
	}})
	with := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	const second = bodyHeaderBytes + bodyChunkBytes + 1250
	return []rejectCase{
		{"an empty body", overHTTP, []byte{}, "not a board"},
		{"a cut header", overHTTP, good[:bodyHeaderBytes-1], "not a board"},
		{"a body of another kind", overHTTP, with(0, 'X'), "not a board"},
		{"a body of another version", overHTTP, with(4, 2), "a board of an unknown version"},
		{"a body of width 5", overHTTP, with(5, 5), "a board of an unknown colour width"},
		{"a body with an unknown flag", overHTTP, with(6, 1), "a board with an unknown flag"},
		{"a body of no columns", overHTTP, with(32, 0), "a board of an impossible size"},
		{"a body of too many rows", overHTTP, with(36, 0x11, 0x27), "a board of an impossible size"},
		{"a body that is cut", overHTTP, good[:len(good)-1], "a board whose length is not that of its chunks"},
		{"a body with trailing bytes", overHTTP, append(bytes.Clone(good), 0), "a board whose length is not that of its chunks"},
		{"a body with a huge count", overHTTP, with(40, 0xff, 0xff, 0xff, 0xff), "a board whose length is not that of its chunks"},
		{"a body with a chunk off the board", overHTTP, with(second, 2), "a chunk outside its board"},
		{"a body with a chunk twice", overHTTP, with(second, 0), "chunks that do not ascend"},
		{"a body with a chunk without placements", overHTTP, with(second+2, 0), "a chunk without placements"},
	}
}
