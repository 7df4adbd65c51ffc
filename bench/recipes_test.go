package bench

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// runRecipes runs each recipe of a page: indented SQL, and Python. It prints one line for each statement, with its
// rows.
const runRecipes = `
import re, sys
try:
    import duckdb, pandas
except ImportError as e:
    print("skip:", e); sys.exit()
page = open(sys.argv[1]).read()
code = re.search(r"` + "```" + `python\n(.*?)` + "```" + `", page, re.S).group(1)
for sql in re.findall(r"(?:^    .*\n)+", page.replace(code, ""), re.M):
    rows = len(duckdb.sql("select 1 from (%s)" % sql.strip().rstrip(";")).fetchall())
    print("sql", rows, sql.strip().split("\n")[0])
exec(code)
print("pandas", len(both), len(t))
`

// TestRecipes: the recipes of the manual run on the results of two runs, and each finds rows.
func TestRecipes(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--fault", "status:503@0.1")
	home := t.TempDir()
	trace := steady(t, 200, 1000, 3)
	for _, name := range []string{"A", "B"} {
		startReplayTo(t, nil, filepath.Join(home, "results", name), "--trace", trace, "--url", m.url).finish(t)
	}
	page := must.Have(filepath.Abs("../cmd/fastreplay/manual/analysis.md"))(t)
	c := exec.Command("python3", "-c", runRecipes, page)
	c.Dir = home
	out, err := c.CombinedOutput()
	if strings.HasPrefix(string(out), "skip:") || len(out) == 0 && err != nil {
		t.Skipf("DuckDB and pandas are not here: %s%v", out, err)
	}
	must.Do(t, err, out)
	if n := strings.Count(string(out), "sql "); n != 10 || strings.Contains(string(out), "sql 0 ") || !strings.Contains(string(out), "pandas 200 ") {
		t.Errorf("%d recipes found rows, want 10:\n%s", n, out)
	}
}
