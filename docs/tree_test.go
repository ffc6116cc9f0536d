package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// tree is what exists: declarations, literals, and targets of the Makefile.
type tree struct {
	packages map[string]bool            // names of packages
	declared map[string]map[string]bool // by package name: top-level names
	members  map[string]map[string]bool // by type name: fields and methods, of all packages together
	anything map[string]bool            // every declared name
	foreign  map[string]bool            // "package.Name" of other modules, as our sources use them
	literals map[string]bool            // whole string literals, and their words
	routes   map[string]bool            // literals with a slash, without parameters
	flags    map[string]bool            // fields of command lines, as --flag
	targets  map[string]bool            // of the Makefile
	modules  string                     // go.mod
}

// skipped are folders that hold nothing of ours.
var skipped = map[string]bool{"node_modules": true, ".git": true, ".cache": true, "bin": true, "placed-data": true}

func readTree(t *testing.T) *tree {
	t.Helper()
	x := &tree{
		packages: map[string]bool{}, declared: map[string]map[string]bool{}, members: map[string]map[string]bool{}, anything: map[string]bool{},
		foreign: map[string]bool{}, literals: map[string]bool{}, routes: map[string]bool{}, flags: map[string]bool{}, targets: map[string]bool{},
		modules: read(t, filepath.Join(root, "go.mod")) + read(t, filepath.Join(root, "tools.mod")),
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, filepath.Join(root, "Makefile")), -1) {
		x.targets[m[1]] = true
	}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped[d.Name()]:
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || filepath.Dir(file) == filepath.Join(root, "docs"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		for _, tag := range buildTag.FindAllString(tags(f), -1) {
			x.literals[tag] = true
		}
		x.file(file, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

var buildTag = regexp.MustCompile(`[a-z0-9]+`)

// tags returns the constraint under which a file is built.
func tags(f *ast.File) string {
	if len(f.Comments) > 0 && f.Comments[0].Pos() < f.Package {
		constraint, _ := strings.CutPrefix(f.Comments[0].List[0].Text, "//go:build ")
		if constraint != f.Comments[0].List[0].Text {
			return constraint
		}
	}
	return ""
}

// file takes in one Go file.
func (x *tree) file(name string, f *ast.File) {
	pkg := f.Name.Name
	if pkg == "main" { // cmd/placed, bench: known by their folders
		pkg = filepath.Base(filepath.Dir(name))
	}
	x.packages[pkg] = true
	imports := map[string]string{}
	for _, i := range f.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		base := path.Base(p)
		if regexp.MustCompile(`^v[0-9]+$`).MatchString(base) {
			base = path.Base(path.Dir(p))
		}
		alias := base
		if i.Name != nil {
			alias = i.Name.Name
		}
		imports[alias] = base
	}
	for _, d := range f.Decls {
		x.declaration(pkg, d)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && imports[of.Name] != "" {
				x.foreign[imports[of.Name]+"."+n.Sel.Name] = true
			}
		case *ast.BasicLit:
			x.literal(n, strings.HasSuffix(name, "_test.go"))
		case *ast.StructType:
			for _, field := range n.Fields.List {
				for _, id := range field.Names {
					x.anything[id.Name] = true
					if field.Tag != nil && (strings.Contains(field.Tag.Value, "help:") || strings.Contains(field.Tag.Value, "cmd:")) {
						x.flags["--"+kebab(id.Name)] = true
					}
				}
			}
		}
		return true
	})
}

func (x *tree) declare(pkg, name string) {
	if x.declared[pkg] == nil {
		x.declared[pkg] = map[string]bool{}
	}
	x.declared[pkg][name] = true
	x.anything[name] = true
}

func (x *tree) member(of, name string) {
	if x.members[of] == nil {
		x.members[of] = map[string]bool{}
	}
	x.members[of][name] = true
	x.anything[name] = true
}

func (x *tree) declaration(pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			x.declare(pkg, d.Name.Name)
			return
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok {
			x.member(id.Name, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					x.declare(pkg, id.Name)
				}
			case *ast.TypeSpec:
				x.declare(pkg, s.Name.Name)
				x.typeMembers(s)
			}
		}
	}
}

func (x *tree) typeMembers(s *ast.TypeSpec) {
	var list *ast.FieldList
	switch u := s.Type.(type) {
	case *ast.StructType:
		list = u.Fields
	case *ast.InterfaceType:
		list = u.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, id := range field.Names {
			x.member(s.Name.Name, id.Name)
		}
	}
}

var words = regexp.MustCompile(`[A-Za-z0-9_][A-Za-z0-9_.-]*[A-Za-z0-9_]`)

// literal takes in a string; those of tests only as far as they look like names.
func (x *tree) literal(l *ast.BasicLit, inTest bool) {
	if l.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(l.Value)
	if err != nil {
		return
	}
	x.literals[text] = !inTest || x.literals[text]
	for _, w := range words.FindAllString(text, -1) {
		if strings.ContainsAny(w, "_-") { // other words are part of sentences
			x.literals[w] = true
		}
	}
	if strings.Contains(text, "/") {
		x.routes[text] = true
		_, route, _ := strings.Cut(text, " ")
		x.routes[route] = true
	}
}

// kebab turns the name of a field into that of its flag: DataDir, data-dir.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			acronymEnds := i+1 < len(name) && unicode.IsLower(rune(name[i+1])) // TLSCert: tls-cert
			if !unicode.IsUpper(rune(name[i-1])) || acronymEnds {
				b.WriteByte('-')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}$`)
	filename   = regexp.MustCompile(`^[A-Za-z0-9_.*/-]+(\.(go|md|mod|ts|mjs|json|png|html|css)|/)$`)
	verb       = regexp.MustCompile(`^(GET|POST|PUT|DELETE|HEAD) (/\S*)$`)
)

// outside are names of things that are not ours: programs, their settings, forms of text.
var outside = map[string]bool{
	"kill -9": true, "ulimit -n": true, "sendto": true, "/tmp/bot.go": true, "go run /tmp/bot.go": true, "FUZZTIME=1m make fuzz-short": true, "Pdeathsig": true, "%w": true,
	"//sumtype:decl": true, "package: what it does": true, "commitlog_sync": true, "batch": true, "group": true, "paxos_variant: v2": true,
	"-o json": true, "./placed-data": true, "placed-data/admin-token": true, // made at the first start
}

// unknown says why what stands in backticks does not exist; "" when it does.
func (x *tree) unknown(name string) string {
	name = strings.TrimSuffix(name, "()")
	switch {
	case x.literals[name] || outside[name]:
		return ""
	case strings.HasPrefix(name, "make "):
		return missing(x.targets[strings.TrimPrefix(name, "make ")], "no such target in the Makefile")
	case verb.MatchString(name):
		return missing(x.routes[verb.FindStringSubmatch(name)[2]], "no such route")
	case strings.HasPrefix(name, "/"):
		return missing(x.routes[name], "no such route")
	case strings.HasPrefix(name, "--"):
		return x.unknownWord(name)
	case strings.Contains(name, " "):
		return x.unknownCommand(name)
	case strings.HasPrefix(name, "PLACED_"):
		return missing(x.flags["--"+strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "PLACED_"), "_", "-"))], "no such variable")
	case strings.HasPrefix(name, "github.com/") || strings.HasPrefix(name, "golang.org/") || strings.HasPrefix(name, "pgregory.net/"):
		return missing(strings.Contains(x.modules, "\t"+name+" "), "no such module in go.mod or tools.mod")
	case exists(name):
		return ""
	case filename.MatchString(name) || strings.Contains(name, "/"):
		return "no such file or folder"
	}
	return x.unknownName(name)
}

func missing(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

// exists reports whether a path, which may be a pattern, names something in the tree.
func exists(name string) bool {
	name = strings.TrimSuffix(name, "...")
	if strings.ContainsAny(name, " <>:") || !strings.ContainsAny(name, "/.") && !strings.HasPrefix(name, "Make") && name != "LICENSE" {
		info, err := os.Stat(filepath.Join(root, name))
		return err == nil && info.IsDir()
	}
	found, err := filepath.Glob(filepath.Join(root, name))
	return err == nil && len(found) > 0
}

// unknownName looks up an identifier: a name, package.Name, Type.Member or package.Type.Member.
func (x *tree) unknownName(name string) string {
	if !identifier.MatchString(name) {
		return "neither a path nor an identifier, nor a string in the sources"
	}
	parts := strings.Split(name, ".")
	switch {
	case len(parts) == 1:
		return missing(x.anything[name] || x.packages[name], "declared nowhere")
	case len(parts) == 2 && (x.declared[parts[0]][parts[1]] || x.members[parts[0]][parts[1]] || x.foreign[name]):
		return ""
	case len(parts) == 3 && x.declared[parts[0]][parts[1]] && x.members[parts[1]][parts[2]]:
		return ""
	}
	return "declared nowhere"
}

// programs are what commands begin with.
var programs = map[string]bool{"go": true, "make": true, "placed": true, "ctl": true, "bench": true, "git": true, "curl": true, "nodetool": true}

// unknownCommand looks at the words of a command: flags, paths, and what kinds of subcommands there are.
func (x *tree) unknownCommand(command string) string {
	list := strings.Fields(command)
	ours := list[0] == "placed" || list[0] == "ctl" || list[0] == "bench" || strings.HasPrefix(command, "go run ")
	if !programs[list[0]] {
		return "neither a command nor an identifier"
	}
	for _, word := range list[1:] {
		switch {
		case strings.HasPrefix(word, "./"):
			if !exists(strings.TrimPrefix(word, "./")) {
				return word + ": no such folder"
			}
		case !ours:
		case strings.HasPrefix(word, "--"):
			if why := x.unknownWord(word); why != "" {
				return why
			}
		case regexp.MustCompile(`^[a-z-]+$`).MatchString(word) && word != "run":
			if !x.flags["--"+word] && !programs[word] {
				return word + ": no such command"
			}
		}
	}
	return ""
}

// unknownWord looks up a flag, with or without a value.
func (x *tree) unknownWord(word string) string {
	flag, _, _ := strings.Cut(word, "=")
	flag, _, _ = strings.Cut(flag, " ")
	positive := "--" + strings.TrimPrefix(flag, "--no-")
	return missing(x.flags[flag] || x.flags[positive] || flag == "--help", flag+": no such flag")
}
