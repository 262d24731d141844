package archtest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the API files anew instead of comparing with them")

// apiFiles are the packages whose API is promised, with the files that hold it.
var apiFiles = map[string]string{
	".":           "producer.txt",
	"partitioner": "partitioner.txt",
	"sasl":        "sasl.txt",
}

// Each change of the promised API is a decision: it shows up in testdata/api, in review. After a wanted one, run
//
//	go test ./internal/archtest -run API -update
func TestAPIIsTheAgreedOne(t *testing.T) {
	for pkg, name := range apiFiles {
		got := strings.Join(apiLines(t, pkg), "\n") + "\n"
		path := filepath.Join("testdata", "api", name)
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			continue
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		before, after := strings.Split(string(want), "\n"), strings.Split(got, "\n")
		for _, line := range before {
			if !slices.Contains(after, line) {
				t.Errorf("package %s lost: %s", pkg, line)
			}
		}
		for _, line := range after {
			if !slices.Contains(before, line) {
				t.Errorf("package %s gained: %s", pkg, line)
			}
		}
	}
}

// The root is complete for its users: what its exported signatures mention is the standard library's, its own, or one
// of these.
func TestRootMentionsOnlyPromisedNames(t *testing.T) {
	words := []string{"Header", "RecordMetadata", "TopicPartition", "ErrorCode"}
	for _, e := range exported(t, ".") {
		names := map[string]string{}
		for p, name := range e.file.imports() {
			names[name] = p
		}
		for _, part := range e.signature {
			ast.Inspect(part, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := s.X.(*ast.Ident)
				if !ok {
					return true
				}
				own, isOwn := cutModule(names[x.Name])
				switch {
				case !isOwn || own == "partitioner" || own == "sasl":
				case own == "protocol" && slices.Contains(words, s.Sel.Name):
				case e.alias && strings.HasSuffix(s.Sel.Name, "Error"): // errors with fields come from where they happen
				default:
					t.Errorf("%s mentions %s.%s, which is not promised to stay", e.line, own, s.Sel.Name)
				}
				return true
			})
		}
	}
}

// An exported name without a doc comment is a question that the reader cannot answer.
func TestPromisedNamesAreDocumented(t *testing.T) {
	for _, pkg := range []string{".", "partitioner", "sasl"} {
		for _, e := range exported(t, pkg) {
			if !e.documented {
				t.Errorf("package %s: no doc comment: %s", pkg, e.line)
			}
		}
	}
}

func apiLines(t *testing.T, pkg string) []string {
	var lines []string
	for _, e := range exported(t, pkg) {
		lines = append(lines, e.line)
	}
	slices.Sort(lines)
	return lines
}

// entry is one exported name: a function, a method, a type, a field, a constant, a variable.
type entry struct {
	file       *file
	line       string
	signature  []ast.Node // the types it mentions
	alias      bool
	documented bool
}

// exported lists what the package exports, methods and fields of exported types included.
func exported(t *testing.T, pkg string) []entry {
	var all []entry
	for _, f := range load(t) {
		if f.pkg != pkg || f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if e, ok := f.function(d); ok {
					all = append(all, e)
				}
			case *ast.GenDecl:
				for i, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							all = append(all, f.typ(d, s)...)
						}
					case *ast.ValueSpec:
						all = append(all, f.values(d, s, i)...)
					}
				}
			}
		}
	}
	return all
}

func (f *file) function(d *ast.FuncDecl) (entry, bool) {
	if !d.Name.IsExported() {
		return entry{}, false
	}
	bare := &ast.FuncDecl{Name: d.Name, Type: d.Type}
	documented := d.Doc != nil
	if d.Recv != nil {
		typ := receiver(d.Recv.List[0].Type)
		if !ast.IsExported(typ) {
			return entry{}, false
		}
		// Names of receivers are nobody's business, and methods that satisfy an interface everybody knows need no comment.
		bare.Recv = &ast.FieldList{List: []*ast.Field{{Type: d.Recv.List[0].Type}}}
		documented = documented || slices.Contains([]string{"Error", "String", "Unwrap", "Is"}, d.Name.Name)
	}
	return entry{file: f, line: f.print(bare), signature: []ast.Node{d.Type}, documented: documented}, true
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func (f *file) typ(d *ast.GenDecl, s *ast.TypeSpec) []entry {
	head := "type " + s.Name.Name
	if s.TypeParams != nil {
		head += f.print(&ast.FuncType{TypeParams: s.TypeParams, Params: &ast.FieldList{}})[len("func"):]
		head = strings.TrimSuffix(head, "()")
	}
	e := entry{file: f, alias: s.Assign != token.NoPos, documented: d.Doc != nil || s.Doc != nil || s.Comment != nil}
	var members *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		e.line, members = head+" struct", x.Fields
	case *ast.InterfaceType:
		e.line, members = head+" interface", x.Methods
	default:
		e.line, e.signature = head+" "+f.print(s.Type), []ast.Node{s.Type}
		if e.alias {
			e.line = head + " = " + f.print(s.Type)
		}
	}
	all := []entry{e}
	if members == nil {
		return all
	}
	for _, m := range members.List {
		typ := f.print(m.Type)
		if fn, ok := m.Type.(*ast.FuncType); ok {
			if _, method := s.Type.(*ast.InterfaceType); method {
				typ = f.print(fn)[len("func"):]
			}
		}
		documented := m.Doc != nil || m.Comment != nil
		names := m.Names
		if len(names) == 0 {
			names = []*ast.Ident{{Name: "(embedded)"}}
		}
		for _, n := range names {
			if n.IsExported() || len(m.Names) == 0 {
				// Plain words for plain structs: a comment on the type may speak for its fields.
				all = append(all, entry{file: f, line: strings.ReplaceAll(fmt.Sprintf("%s, %s %s", e.line, n.Name, typ), n.Name+" (", n.Name+"("), signature: []ast.Node{m.Type}, documented: documented || e.documented && len(members.List) <= 8})
			}
		}
	}
	return all
}

func (f *file) values(d *ast.GenDecl, s *ast.ValueSpec, iota int) []entry {
	var all []entry
	for i, n := range s.Names {
		if !n.IsExported() {
			continue
		}
		e := entry{file: f, line: d.Tok.String() + " " + n.Name, documented: d.Doc != nil || s.Doc != nil || s.Comment != nil}
		if s.Type != nil {
			e.line += " " + f.print(s.Type)
			e.signature = []ast.Node{s.Type}
		}
		if i < len(s.Values) {
			e.line += " = " + f.print(s.Values[i])
		} else if d.Tok == token.CONST {
			e.line += fmt.Sprintf(" = as before, iota %d", iota)
		}
		all = append(all, e)
	}
	return all
}

// print is the node as source on one line.
func (f *file) print(n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, f.fset, n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
