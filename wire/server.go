package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/placed-board/placed/board"
)

// Types of the messages from a node: their first byte.
const (
	typeHello           byte = 0x80
	typeBase            byte = 0x81
	typeFrame           byte = 0x82
	typeRepairFrame     byte = 0x83
	typeHeartbeat       byte = 0x84
	typeMe              byte = 0x85
	typePlaced          byte = 0x86
	typeSettingsChanged byte = 0x87
	typeChunkHashes     byte = 0x88
	typeNotice          byte = 0x89
	typeMove            byte = 0x8a
)

const (
	helloKnown       byte = 1 << 0
	baseResumed      byte = 1 << 0
	placedVerdict    byte = 0b11 // board.Verdict
	placedTrueColour byte = 1 << 2
)

// NoticeDetailBytesMax is the longest Notice.Detail; AppendServer cuts a longer one.
const NoticeDetailBytesMax = 200

// AppendServer appends the encoded message to dst and returns the longer slice. Negative durations are written as 0. Where a
// list of chunks does not ascend a sorted copy is written. It panics on a frame that cannot be said on the wire: a chunk twice
// in one list, an invalid chunk, a tile beyond its chunk, a colour beyond the section's width, a section without tiles, an
// image of the wrong size.
func AppendServer(dst []byte, m ServerMessage) []byte {
	switch m := m.(type) {
	case *Frame:
		return appendFrame(dst, m)
	case *Heartbeat:
		dst = binary.AppendUvarint(append(dst, typeHeartbeat), m.Tick)
		dst = appendMs(dst, m.ServerTimeMs)
		dst = binary.AppendUvarint(dst, m.Online)
		dst = binary.LittleEndian.AppendUint64(dst, m.Hashes.Tiles)
		return binary.LittleEndian.AppendUint64(dst, m.Hashes.Sequences)
	case *Hello:
		return appendHello(dst, m)
	case *Base:
		dst = binary.AppendUvarint(append(dst, typeBase), m.Tick)
		return appendChunksAt(append(dst, flagIf(m.Resumed, baseResumed)), m.Chunks)
	case *Me:
		dst = binary.AppendUvarint(append(dst, typeMe), m.Turn)
		return appendMs(appendMs(dst, m.WaitMs), m.BannedUntilMs)
	case *Placed:
		return appendPlaced(dst, m)
	case *SettingsChanged:
		dst = binary.AppendUvarint(append(dst, typeSettingsChanged), m.Tick)
		return appendSettings(dst, m.Settings)
	case *ChunkHashes:
		dst = binary.AppendUvarint(append(dst, typeChunkHashes), m.Tick)
		return appendChunkHashes(dst, m.Chunks)
	case *Notice:
		dst = appendMs(append(dst, typeNotice, byte(m.Code)), m.RetryMs)
		return appendString(dst, cutDetail(m.Detail))
	case *Move:
		return appendMs(append(dst, typeMove), m.WithinMs)
	}
	panic(fmt.Sprintf("wire: AppendServer of %T", m))
}

// SealServer encodes the message and puts its websocket header in front.
func SealServer(m ServerMessage) Sealed {
	return Seal(AppendServer(make([]byte, SealRoom, SealRoom+64), m))
}

// DecodeServer decodes one message of a node; the message shares no memory with b. Every error wraps ErrMalformed.
// Settings are decoded but not validated: a client takes what its node has in force.
func DecodeServer(b []byte) (ServerMessage, error) {
	if IsFrame(b) {
		f, err := decodeFrame(b)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	r := &reader{b: b}
	var m ServerMessage
	switch r.byte() {
	case typeHello:
		m = decodeHello(r)
	case typeBase:
		m = &Base{Tick: r.uvarint(), Resumed: r.flags(baseResumed) != 0, Chunks: decodeChunksAt(r, math.MaxUint16)}
	case typeHeartbeat:
		m = &Heartbeat{
			Tick: r.uvarint(), ServerTimeMs: r.ms(), Online: r.uvarint(),
			Hashes: board.Hashes{Tiles: r.u64(), Sequences: r.u64()},
		}
	case typeMe:
		m = &Me{Turn: r.uvarint(), WaitMs: r.ms(), BannedUntilMs: r.ms()}
	case typePlaced:
		m = decodePlaced(r)
	case typeSettingsChanged:
		m = &SettingsChanged{Tick: r.uvarint(), Settings: decodeSettings(r)}
	case typeChunkHashes:
		m = &ChunkHashes{Tick: r.uvarint(), Chunks: decodeChunkHashes(r)}
	case typeNotice:
		m = &Notice{Code: board.Code(r.byte()), RetryMs: r.ms(), Detail: decodeString(r, NoticeDetailBytesMax)}
	case typeMove:
		m = &Move{WithinMs: r.ms()}
	default:
		r.fail("an unknown type of message")
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return m, nil
}

func flagIf(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// appendMs appends a time or duration in milliseconds; one below 0 is written as 0.
func appendMs(dst []byte, ms int64) []byte { return binary.AppendUvarint(dst, uint64(max(ms, 0))) }

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func decodeString(r *reader, bytesMax int) string {
	b := r.bytes()
	if len(b) > bytesMax || !utf8.Valid(b) {
		r.fail("a text that is too long or not UTF-8")
		return ""
	}
	return string(b)
}

// cutDetail makes valid UTF-8 of at most NoticeDetailBytesMax bytes.
func cutDetail(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= NoticeDetailBytesMax {
		return s
	}
	n := NoticeDetailBytesMax
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func appendHello(dst []byte, m *Hello) []byte {
	dst = binary.AppendUvarint(append(dst, typeHello), uint64(m.Protocol))
	dst = binary.LittleEndian.AppendUint64(dst, m.Epoch)
	dst = binary.LittleEndian.AppendUint64(dst, m.Incarnation)
	dst = binary.AppendUvarint(dst, m.Tick)
	dst = appendMs(appendMs(dst, m.ServerTimeMs), m.HeartbeatMs)
	dst = append(dst, flagIf(m.Known, helloKnown))
	if m.Known {
		dst = appendMs(binary.AppendUvarint(dst, m.Turn), m.WaitMs)
	}
	return appendSettings(appendString(dst, string(m.User)), m.Settings)
}

func decodeHello(r *reader) *Hello {
	m := &Hello{Protocol: int(r.limited(math.MaxInt32, "a protocol version above 31 bits"))}
	if m.Protocol != Protocol {
		r.fail(fmt.Sprintf("protocol version %d, this program speaks %d", m.Protocol, Protocol))
	}
	m.Epoch, m.Incarnation, m.Tick = r.u64(), r.u64(), r.uvarint()
	m.ServerTimeMs, m.HeartbeatMs = r.ms(), r.ms()
	if m.Known = r.flags(helloKnown) != 0; m.Known {
		m.Turn, m.WaitMs = r.uvarint(), r.ms()
	}
	m.User = board.UserID(decodeString(r, board.UserBytesMax))
	m.Settings = decodeSettings(r)
	return m
}

// appendSettings appends the settings as JSON after their length. Lists are never null.
func appendSettings(dst []byte, s board.Settings) []byte {
	if s.Protected == nil {
		s.Protected = []board.Rect{}
	}
	if s.Palette == nil {
		s.Palette = []board.PaletteEntry{}
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic("wire: settings as JSON: " + err.Error()) // numbers, strings and booleans only
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func decodeSettings(r *reader) board.Settings {
	var s board.Settings
	b := r.bytes()
	if r.err != nil {
		return s
	}
	if err := json.Unmarshal(b, &s); err != nil {
		r.fail("settings that are not settings in JSON")
	}
	return s
}

// The layout of Placed: verdict and flags, code of a refusal, turn, nonce, x, y, colour, place of an acceptance, wait, next turn.
func appendPlaced(dst []byte, m *Placed) []byte {
	dst = append(dst, typePlaced, byte(m.Verdict)&placedVerdict|flagIf(m.TrueColour, placedTrueColour))
	if m.Verdict == board.VerdictRefused {
		dst = append(dst, byte(m.Code))
	}
	dst = binary.AppendUvarint(dst, m.Turn)
	dst = binary.LittleEndian.AppendUint64(dst, m.Nonce)
	dst = binary.AppendVarint(dst, int64(m.At.X))
	dst = binary.AppendVarint(dst, int64(m.At.Y))
	dst = append(dst, byte(m.Colour))
	if m.Verdict == board.VerdictAccepted {
		dst = binary.AppendUvarint(dst, uint64(m.Chunk))
		dst = binary.AppendUvarint(dst, m.Sequence)
	}
	return binary.AppendUvarint(appendMs(dst, m.WaitMs), m.NextTurn)
}

func decodePlaced(r *reader) *Placed {
	flags := r.flags(placedVerdict | placedTrueColour)
	m := &Placed{}
	m.Verdict, m.TrueColour = board.Verdict(flags&placedVerdict), flags&placedTrueColour != 0
	if m.Verdict == board.VerdictRefused {
		m.Code = board.Code(r.byte())
	}
	m.Turn, m.Nonce = r.uvarint(), r.u64()
	m.At = board.Point{X: r.zigzag(), Y: r.zigzag()}
	m.Colour = board.Colour(r.byte())
	if m.Verdict == board.VerdictAccepted {
		m.Chunk = r.chunkAfter(0, true, r.uvarint())
		m.Sequence = r.uvarint()
	}
	m.WaitMs, m.NextTurn = r.ms(), r.uvarint()
	return m
}
