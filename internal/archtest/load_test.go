package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/kafka-reservoir/producer"

// file is one Go file of the module.
type file struct {
	path string // from the module's root, with slashes
	pkg  string // its directory, "." for the root
	test bool
	text string
	ast  *ast.File
	fset *token.FileSet
}

// source parses the module once: every Go file below its root, except nested modules and testdata.
var source = sync.OnceValues(func() ([]*file, error) {
	root := filepath.Join("..", "..")
	fset := token.NewFileSet()
	var files []*file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == "." {
				return nil
			}
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if nested == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		tree, err := parser.ParseFile(fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, &file{
			path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), text: string(text), ast: tree, fset: fset,
		})
		return nil
	})
	return files, err
})

func load(t *testing.T) []*file {
	t.Helper()
	files, err := source()
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// imports are the file's imports: path to the name it is used by here.
func (f *file) imports() map[string]string {
	m := map[string]string{}
	for _, i := range f.ast.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		m[p] = name
	}
	return m
}

// within reports whether pkg is dir or below it.
func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }
