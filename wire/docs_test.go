package wire

import (
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
)

// tables returns the rows of every table of docs/protocol.md by the table's header, cells trimmed.
func tables(t *testing.T) map[string][][]string {
	t.Helper()
	b, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][][]string{}
	header := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			header = ""
		case header == "":
			header = line
		case strings.HasPrefix(line, "| ---"):
		default:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all[header] = append(all[header], cells)
		}
	}
	return all
}

// sameRows compares rows with the wanted ones, in order.
func sameRows(t *testing.T, what string, got, want [][]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows in docs/protocol.md, %d in the code", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if g, w := strings.Join(got[i][:len(want[i])], " | "), strings.Join(want[i], " | "); g != w {
			t.Errorf("%s: docs/protocol.md says\n%s, the code\n%s", what, g, w)
		}
	}
}

func TestDocumentedRefusals(t *testing.T) {
	var want [][]string
	for _, r := range board.Refusals {
		want = append(want, []string{strconv.Itoa(int(r.Code)), r.Label, strconv.Itoa(r.Status), r.Sentence})
	}
	sameRows(t, "refusals", tables(t)["| code | label | status | for people |"], want)
}

// constants returns the integer constants of a file whose names begin with prefix, in their order.
func constants(t *testing.T, file, prefix string) [][2]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [][2]string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, prefix) && len(spec.Values) == 1 {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				out = append(out, [2]string{spec.Names[0].Name, value.Value})
			}
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s has no constants that begin with %s", file, prefix)
	}
	return out
}

func TestDocumentedCloseCodes(t *testing.T) {
	var want [][]string
	for _, c := range constants(t, "close.go", "Close") {
		want = append(want, []string{c[1], c[0]})
	}
	sameRows(t, "close codes", tables(t)["| code | name | why | what a client does |"], want)
}

func TestDocumentedTypes(t *testing.T) {
	want := map[string]string{}
	for file, from := range map[string]string{"client.go": "client", "server.go": "node"} {
		for _, c := range constants(t, file, "type") {
			name := strings.TrimPrefix(c[0], "type")
			if name == "RepairFrame" {
				name = "Frame that repairs"
			}
			want[c[1]] = name + " from " + from
		}
	}
	rows := tables(t)["| type | message | from |"]
	if len(rows) != len(want) {
		t.Errorf("%d types are documented, there are %d", len(rows), len(want))
	}
	for _, row := range rows {
		if got := row[1] + " from " + row[2]; got != want[row[0]] {
			t.Errorf("type %s: docs/protocol.md says %s, the code %s", row[0], got, want[row[0]])
		}
		delete(want, row[0]) // a type documented twice is not found again
	}
}

func TestDocumentedLimits(t *testing.T) {
	var want [][]string
	for _, c := range []struct {
		name  string
		value int
	}{
		{"ClientMessageBytesMax", ClientMessageBytesMax},
		{"RepairChunksMax", RepairChunksMax},
		{"SubscribeChunksMax", SubscribeChunksMax},
		{"HashesChunksMax", HashesChunksMax},
		{"NoticeDetailBytesMax", NoticeDetailBytesMax},
		{"UserBytesMax", board.UserBytesMax},
		{"SideMax", board.SideMax},
		{"PaletteMax", board.PaletteMax},
		{"WholeBoardTilesMax", board.WholeBoardTilesMax},
	} {
		want = append(want, []string{"`" + c.name + "`", grouped(c.value)})
	}
	sameRows(t, "limits", tables(t)["| constant | value | of |"], want)
}

// grouped writes a number with a comma in front of each three digits.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

func TestDocumentedExamples(t *testing.T) {
	byName := map[string]string{}
	for _, c := range goldenCases() {
		byName[c.name] = hex.EncodeToString(encodeAny(c.message))
	}
	rows := tables(t)["| message | bytes |"]
	if len(rows) < 5 {
		t.Errorf("%d examples", len(rows))
	}
	for _, row := range rows {
		if got := strings.Trim(row[1], "`"); byName[row[0]] != got || got == "" {
			t.Errorf("example %q: docs/protocol.md says %s, the golden message is %s", row[0], got, byName[row[0]])
		}
	}
}
