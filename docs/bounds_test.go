package docs

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/placed-board/placed/cluster"
	"github.com/placed-board/placed/store/cassandra"
	"github.com/placed-board/placed/store/pebble"
	"github.com/placed-board/placed/transport"
	"github.com/placed-board/placed/transport/place2017"
)

// module is the path that our packages begin with.
const module = "github.com/placed-board/placed/"

// bounded are the packages whose bounds the table lists: by name, where they lie.
var bounded = map[string]string{
	"board": "board", "wire": "wire", "store": "store", "pebble": "store/pebble", "backup": "store/backup", "cassandra": "store/cassandra",
	"actors": "actors", "transport": "transport", "invites": "invites", "client": "client", "placed": "cmd/placed",
	"archive": "archive",
	"cluster": "cluster", "place2017": "transport/place2017",
}

// configs hold the defaults that rows named Config.Field are compared with.
var configs = map[string]any{
	"cluster":   cluster.DefaultConfig(),
	"place2017": place2017.DefaultConfig(),
	"transport": transport.DefaultConfig(), "pebble": pebble.DefaultConfig("."), "cassandra": cassandra.DefaultConfig(),
}

// bound is one value of the table.
type bound struct{ pkg, name, value string }

var (
	boundsHeading = "| package | bound | value | "
	rowCells      = regexp.MustCompile(`^\| (\S+) \| (.+?) \| (.+?) \| (.+) \|$`)
)

// tableOfBounds reads the table; in a row with several names the values stand in the same order, between slashes.
func tableOfBounds(t *testing.T) []bound {
	t.Helper()
	_, table, ok := strings.Cut(read(t, filepath.Join(root, "ARCHITECTURE.md")), boundsHeading)
	if !ok {
		t.Fatalf("ARCHITECTURE.md has no table that begins with %q", boundsHeading)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var list []bound
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := rowCells.FindStringSubmatch(row)
		if cells == nil {
			t.Errorf("not a row of four cells: %s", row)
			continue
		}
		names, values := strings.Split(cells[2], " / "), strings.Split(cells[3], " / ")
		if len(names) != len(values) {
			t.Errorf("%d names and %d values: %s", len(names), len(values), row)
			continue
		}
		for i := range names {
			list = append(list, bound{cells[1], strings.Trim(names[i], "`"), values[i]})
		}
	}
	return list
}

// TestBoundsAreTrue compares every value of the table with the sources.
func TestBoundsAreTrue(t *testing.T) {
	constants := readConstants(t)
	list := tableOfBounds(t)
	for _, b := range list {
		if why := b.wrong(constants); why != "" {
			t.Errorf("%s: `%s` = %s: %s", b.pkg, b.name, b.value, why)
		}
	}
	if len(list) < 100 {
		t.Errorf("only %d bounds were read", len(list))
	}
	for _, b := range []bound{{"actors", "ShardOpenMax", "511"}, {"client", "writeTimeout", "10 ms"}, {"transport", "Config.Linger", "3 s"}, {"actors", "Nobody", "1"}} {
		if b.wrong(constants) == "" {
			t.Errorf("%+v is taken for true", b)
		}
	}
}

// TestBoundsAreComplete finds every named bound of the packages in the table.
func TestBoundsAreComplete(t *testing.T) {
	listed := map[string]bool{}
	for _, b := range tableOfBounds(t) {
		listed[b.pkg+"."+b.name] = true
	}
	isBound := regexp.MustCompile(`(Max|Min|Ms|Timeout|Every|Pause|After|Tries|Retry|Wait|Throughput|Placements)$`)
	for pkg, constants := range readConstants(t) {
		for name := range constants {
			if isBound.MatchString(name) && !listed[pkg+"."+name] && !elsewhere[pkg+"."+name] {
				t.Errorf("the table of bounds lacks `%s` of %s", name, pkg)
			}
		}
	}
}

// elsewhere are constants that limit what a configuration or an encoding may say, and nothing that grows.
var elsewhere = map[string]bool{
	"pebble.memTableBytesMin": true, "pebble.memTableBytesMax": true, "pebble.cacheBytesMax": true,
	"cassandra.slotsMax": true, "cassandra.replicationMax": true, "cassandra.timeoutMin": true, "cassandra.timeoutMax": true,
	"transport.countMax": true, "transport.AdminTokenBytesMin": true, "transport.controlBytesMax": true, "transport.textDeadAfter": true,
	"place2017.coloursMax": true, "place2017.KeyBytesMin": true, "place2017.rectSideMax": true, "place2017.frameHeaderBytesMax": true, "transport.tokenTextMax": true,
	"store.PlacementBytesMax": true, "pebble.encodedHeadMax": true, "wire.descriptorCountMax": true,
	"archive.coordinateMax": true, "archive.timeMsMin": true, "archive.timeMsMax": true, "archive.commitPlacements": true, "archive.columnsMax": true,
	"archive.gifDelayMax": true, "archive.PseudonymKeyBytesMin": true,
	"wire.scratchTilesMax": true, "client.bufferKeptBytesMax": true, // what is kept for use again; the rest is given back
}

// wrong says in what the bound differs from the sources.
func (b bound) wrong(constants map[string]map[string]constant.Value) string {
	inMs := strings.HasSuffix(b.name, "Ms") || strings.HasSuffix(b.name, "MsMax")
	var have int64
	if field, ok := strings.CutPrefix(b.name, "Config."); ok {
		v := reflect.ValueOf(configs[b.pkg])
		if !v.IsValid() || !v.FieldByName(field).IsValid() || !v.FieldByName(field).CanInt() {
			return "no such field with a default"
		}
		have = v.FieldByName(field).Int()
	} else {
		v, ok := constants[b.pkg][b.name]
		if !ok {
			return "no such constant"
		}
		have, _ = constant.Int64Val(v)
	}
	want, isTime, err := parseValue(b.value)
	if err != nil {
		return err.Error()
	}
	if isTime && inMs {
		want /= int64(time.Millisecond)
	}
	if want != have {
		return fmt.Sprintf("the sources say %d", have)
	}
	return ""
}

var valueForm = regexp.MustCompile(`^([0-9][0-9,]*)(?: (\S+))?$`)

// parseValue reads "1,600", "4 MiB", "250 ms" (in nanoseconds) and the like.
func parseValue(text string) (value int64, isTime bool, err error) {
	m := valueForm.FindStringSubmatch(text)
	if m == nil {
		return 0, false, fmt.Errorf("%q is no value", text)
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
	if err != nil {
		return 0, false, err
	}
	units := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
	times := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour, "days": 24 * time.Hour}
	if unit, ok := units[m[2]]; ok {
		return n * unit, false, nil
	}
	if unit, ok := times[m[2]]; ok {
		return n * int64(unit), true, nil
	}
	return 0, false, fmt.Errorf("%q has an unknown unit", text)
}

// readConstants evaluates the numeric constants of the packages.
func readConstants(t *testing.T) map[string]map[string]constant.Value {
	t.Helper()
	all := map[string]map[string]constant.Value{}
	from := &ours{t: t, std: importer.Default(), done: map[string]*types.Package{}}
	for name, dir := range bounded {
		pkg, err := from.Import(module + dir)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = map[string]constant.Value{}
		for _, id := range pkg.Scope().Names() {
			if c, ok := pkg.Scope().Lookup(id).(*types.Const); ok && c.Val().Kind() == constant.Int {
				all[name][id] = c.Val()
			}
		}
	}
	return all
}

// ours imports packages of this module from their sources, those of the standard library as they are compiled, and takes all
// others for empty: what depends on them has no value, and no bound does.
type ours struct {
	t    *testing.T
	std  types.Importer
	done map[string]*types.Package
}

// Import implements types.Importer.
func (o *ours) Import(path string) (*types.Package, error) {
	if pkg := o.done[path]; pkg != nil {
		return pkg, nil
	}
	dir, mine := strings.CutPrefix(path, module)
	if !mine && !strings.Contains(path, ".") {
		return o.std.Import(path)
	}
	if !mine {
		pkg := types.NewPackage(path, filepath.Base(path))
		pkg.MarkComplete()
		o.done[path] = pkg
		return pkg, nil
	}
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	config := types.Config{Importer: o, Error: func(error) {}, IgnoreFuncBodies: true}
	pkg, _ := config.Check(path, fset, parsed, nil) // with faults: of the packages taken for empty, and of files for other systems
	o.done[path] = pkg
	return pkg, nil
}
