package archtest

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each row of docs/what-happens-when.md names tests that exist, and the README leads there.
func TestWhatHappensWhenIsShownByTests(t *testing.T) {
	tests := map[string]bool{}
	for _, f := range load(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[fn.Name.Name] = true
			}
		}
	}
	text, err := os.ReadFile("../../docs/what-happens-when.md")
	require.NoError(t, err)
	name := regexp.MustCompile("^`(Test\\w+)`$")
	rows := map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| What happens |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !assert.Len(t, cells, 5, line) {
			continue
		}
		assert.False(t, rows[cells[0]], "%q stands there twice", cells[0])
		rows[cells[0]] = true
		for _, cell := range cells {
			assert.NotEmpty(t, strings.TrimSpace(cell), line)
		}
		for shown := range strings.SplitSeq(cells[4], ", ") {
			m := name.FindStringSubmatch(shown)
			if assert.NotNil(t, m, "%q of %q is no test's name", shown, cells[0]) {
				assert.True(t, tests[m[1]], "%q: there is no %s", cells[0], m[1])
			}
		}
	}
	assert.GreaterOrEqual(t, len(rows), 20)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "(docs/what-happens-when.md)")
}
