package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
)

var update = flag.Bool("update", false, "write the golden files anew")

type goldenEntry struct {
	Name      string          `json:"name"`
	Direction string          `json:"direction"` // client, node, http
	Type      string          `json:"type"`
	Hex       string          `json:"hex"`
	Value     json.RawMessage `json:"value"`
}

func encodeAny(m any) []byte {
	switch m := m.(type) {
	case ClientMessage:
		return AppendClient(nil, m)
	case ServerMessage:
		return AppendServer(nil, m)
	}
	return AppendBoard(nil, m.(*BoardBody))
}

func decodeAny(direction string, b []byte) (any, error) {
	switch direction {
	case fromClient:
		return DecodeClient(b)
	case fromNode:
		return DecodeServer(b)
	}
	return DecodeBoard(b)
}

// plainJSON marshals without the escaping of <, > and &.
func plainJSON(t *testing.T, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(buf.Bytes())
}

// golden compares the list with the file of testdata, one entry a line, or writes it when asked to.
func golden[T any](t *testing.T, file string, list []T) []T {
	t.Helper()
	var buf bytes.Buffer
	for i, entry := range list {
		buf.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		buf.Write(plainJSON(t, entry))
	}
	buf.WriteString("\n]\n")
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, buf.Bytes()) {
		t.Errorf("%s does not say what this program says: a change of the protocol needs a new version (-update writes it anew)", path)
	}
	var read []T
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

func TestGoldenMessages(t *testing.T) {
	cases := goldenCases()
	var list []goldenEntry
	for _, c := range cases {
		kind, value := goldenValue(c.message)
		list = append(list, goldenEntry{c.name, c.direction, kind, hex.EncodeToString(encodeAny(c.message)), plainJSON(t, value)})
	}
	read := golden(t, "golden.json", list)
	if len(read) != len(cases) {
		t.Fatalf("%d entries in the file, %d messages here", len(read), len(cases))
	}
	names := map[string]bool{}
	for i, e := range read {
		if names[e.Name] {
			t.Errorf("the name %q is used twice", e.Name)
		}
		names[e.Name] = true
		b, err := hex.DecodeString(e.Hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeAny(e.Direction, b)
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		if !reflect.DeepEqual(got, cases[i].message) {
			t.Errorf("%s: decoded %#v, want %#v", e.Name, got, cases[i].message)
		}
		kind, value := goldenValue(got)
		if kind != e.Type || !bytes.Equal(plainJSON(t, value), plainJSON(t, e.Value)) {
			t.Errorf("%s: decoded to %s %s, want %s %s", e.Name, kind, plainJSON(t, value), e.Type, e.Value)
		}
	}
}

// TestGoldenCoversEverything keeps the golden list complete: every type of message, kind, width and verdict.
func TestGoldenCoversEverything(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range goldenCases() {
		kind, _ := goldenValue(c.message)
		seen[kind] = true
		switch m := c.message.(type) {
		case *Frame:
			seen["repair frame"] = seen["repair frame"] || m.Repair
			for _, s := range m.Sections {
				seen[sectionValue(&s, false)["kind"].(string)+map[board.Width]string{4: "4", 8: "8"}[s.Width]] = true
			}
		case *Placed:
			seen[m.Verdict.String()] = true
		}
	}
	want := "subscribe place repair getHashes hello base frame heartbeat me placed settingsChanged chunkHashes notice move board " +
		"accepted charged unknown refused run4 run8 patch4 patch8 set4 set8"
	for _, w := range append(strings.Fields(want), "repair frame") {
		if !seen[w] {
			t.Errorf("no golden message of %q", w)
		}
	}
}

type rejectEntry struct {
	Name      string `json:"name"`
	Direction string `json:"direction"`
	Hex       string `json:"hex"`
	Why       string `json:"why"`
}

func TestGoldenRejects(t *testing.T) {
	var list []rejectEntry
	for _, c := range rejectCases() {
		_, err := decodeAny(c.direction, c.bytes)
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", c.name, err)
			continue
		}
		why := strings.TrimPrefix(err.Error(), ErrMalformed.Error()+": ")
		if why != c.why {
			t.Errorf("%s: rejected for %q, want %q", c.name, why, c.why)
		}
		list = append(list, rejectEntry{c.name, c.direction, hex.EncodeToString(c.bytes), why})
	}
	golden(t, "rejects.json", list)
}
