package wire

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/placed-board/placed/board"
)

// object is a JSON object of a golden file. 64-bit numbers are decimal strings, images are hexadecimal.
type object = map[string]any

func u64(v uint64) string { return strconv.FormatUint(v, 10) }
func i64(v int64) string  { return strconv.FormatInt(v, 10) }

// goldenValue returns the type and the value of a message as the golden file shows them.
func goldenValue(m any) (string, object) {
	switch m := m.(type) {
	case *Subscribe:
		v := object{"whole": m.Whole}
		if !m.Whole {
			v["chunks"] = rectValue(m.Chunks)
		}
		if m.Resume != nil {
			v["resume"] = object{"epoch": u64(m.Resume.Epoch), "incarnation": u64(m.Resume.Incarnation), "tick": u64(m.Resume.Tick)}
		}
		return "subscribe", v
	case *Place:
		return "place", object{"turn": u64(m.Turn), "nonce": u64(m.Nonce), "x": m.X, "y": m.Y, "colour": m.Colour}
	case *Repair:
		return "repair", object{"chunks": chunksAtValue(m.Chunks)}
	case *GetHashes:
		return "getHashes", object{"chunks": rectValue(m.Chunks)}
	case *Hello:
		v := object{
			"protocol": m.Protocol, "epoch": u64(m.Epoch), "incarnation": u64(m.Incarnation), "tick": u64(m.Tick),
			"serverTimeMs": i64(m.ServerTimeMs), "heartbeatMs": i64(m.HeartbeatMs), "settings": settingsValue(m.Settings),
			"user": string(m.User), "known": m.Known,
		}
		if m.Known {
			v["turn"], v["waitMs"] = u64(m.Turn), i64(m.WaitMs)
		}
		return "hello", v
	case *Base:
		return "base", object{"tick": u64(m.Tick), "resumed": m.Resumed, "chunks": chunksAtValue(m.Chunks)}
	case *Frame:
		sections := []object{}
		for i := range m.Sections {
			sections = append(sections, sectionValue(&m.Sections[i], m.Repair))
		}
		return "frame", object{"tick": u64(m.Tick), "repair": m.Repair, "sections": sections}
	case *Heartbeat:
		return "heartbeat", object{
			"tick": u64(m.Tick), "serverTimeMs": i64(m.ServerTimeMs), "online": u64(m.Online),
			"hashes": object{"tiles": u64(m.Hashes.Tiles), "sequences": u64(m.Hashes.Sequences)},
		}
	case *Me:
		return "me", object{"turn": u64(m.Turn), "waitMs": i64(m.WaitMs), "bannedUntilMs": i64(m.BannedUntilMs)}
	case *Placed:
		return "placed", placedValue(&m.PlaceOutcome)
	case *SettingsChanged:
		return "settingsChanged", object{"tick": u64(m.Tick), "settings": settingsValue(m.Settings)}
	case *ChunkHashes:
		chunks := []object{}
		for _, c := range m.Chunks {
			chunks = append(chunks, object{"chunk": c.Chunk, "sequence": u64(c.Sequence), "tiles": u64(c.Tiles)})
		}
		return "chunkHashes", object{"tick": u64(m.Tick), "chunks": chunks}
	case *Notice:
		return "notice", object{"code": m.Code, "retryMs": i64(m.RetryMs), "detail": m.Detail}
	case *Move:
		return "move", object{"withinMs": i64(m.WithinMs)}
	case *BoardBody:
		return "board", bodyValue(m)
	}
	panic(fmt.Sprintf("no golden value of %T", m))
}

func rectValue(c ChunkRect) object {
	return object{"col": c.Col, "row": c.Row, "cols": c.Cols, "rows": c.Rows}
}

func chunksAtValue(list []ChunkAt) []object {
	out := []object{}
	for _, c := range list {
		out = append(out, object{"chunk": c.Chunk, "sequence": u64(c.Sequence)})
	}
	return out
}

func sectionValue(s *Section, repair bool) object {
	v := object{"chunk": s.Chunk, "kind": [...]string{"run", "patch", "set"}[s.Kind], "width": s.Width}
	if s.Kind == SectionSet {
		v["sequence"], v["image"] = u64(s.Sequence), hex.EncodeToString(s.Image)
		return v
	}
	if s.Kind == SectionPatch {
		v["advance"] = u64(s.Advance)
	}
	if repair {
		v["sequence"] = u64(s.Sequence)
	}
	tiles := [][2]int{}
	for _, t := range s.Tiles {
		tiles = append(tiles, [2]int{int(t.Index), int(t.Colour)})
	}
	v["tiles"] = tiles
	return v
}

func placedValue(o *board.PlaceOutcome) object {
	v := object{
		"verdict": o.Verdict.String(), "turn": u64(o.Turn), "nonce": u64(o.Nonce), "x": o.At.X, "y": o.At.Y, "colour": o.Colour,
		"trueColour": o.TrueColour, "waitMs": i64(o.WaitMs), "nextTurn": u64(o.NextTurn),
	}
	switch o.Verdict {
	case board.VerdictAccepted:
		v["chunk"], v["sequence"] = o.Chunk, u64(o.Sequence)
	case board.VerdictRefused:
		v["code"] = o.Code
	}
	return v
}

func settingsValue(s board.Settings) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

func bodyValue(b *BoardBody) object {
	chunks := []object{}
	for _, c := range b.Chunks {
		chunks = append(chunks, object{"chunk": c.Chunk, "sequence": u64(c.Sequence), "image": hex.EncodeToString(c.Image)})
	}
	return object{
		"epoch": u64(b.Epoch), "incarnation": u64(b.Incarnation), "tick": u64(b.Tick), "width": b.Width, "height": b.Height,
		"colourWidth": b.ColourWidth, "chunks": chunks,
	}
}
