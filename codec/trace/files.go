package trace

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileStart is a file among several and the number of its first row.
type fileStart struct {
	name string
	row  int
}

// traceFile is a file to read, and its place in the directory where it was found; "" for one that was named itself.
type traceFile struct{ path, within string }

// filesOf is the paths, in place of a directory the files in it and below that may be traces.
func filesOf(paths []string) ([]traceFile, error) {
	var all []traceFile
	for _, path := range paths {
		if info, err := os.Stat(path); path == "-" || err != nil || !info.IsDir() {
			all = append(all, traceFile{path: path}) // reading it says what is wrong
			continue
		}
		before := len(all)
		err := fs.WalkDir(os.DirFS(path), ".", func(within string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && isTraceName(within) {
				all = append(all, traceFile{filepath.Join(path, within), within})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("cannot read the trace: %s: %w", path, err)
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s is a directory without traces; their names end in %s, and perhaps .gz or .zst", path, strings.Join(traceEndings(), ", "))
		}
	}
	return all, nil
}

// traceEndings is how the names of traces end.
func traceEndings() []string { return []string{".jsonl", ".json", ".csv"} }

// isTraceName tells whether a file in a directory may be a trace.
func isTraceName(path string) bool {
	name := filepath.Base(path)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	return !strings.HasPrefix(name, ".") && slices.Contains(traceEndings(), filepath.Ext(name))
}

// agree refuses a further file that is not like the first. Where formats differ, so do clocks and what an id means.
func (l *loader) agree() error {
	f := l.parser.format
	if l.format == nil {
		l.format = f
	}
	switch {
	case l.format.name != f.name:
		return refuse(l.name, fmt.Sprintf("this is %s, but %s is %s", f.name, l.files[0].name, l.format.name), "files that are replayed together have one format: bring them to one with `fastreplay convert`")
	case l.format.names != f.names:
		return refuse(l.name, "not the columns that "+l.files[0].name+" has", "files that are replayed together have the same ones, in any order")
	}
	return nil
}

// allNames is the names of all files, as one.
func (l *loader) allNames() string {
	var names []string
	for _, f := range l.files {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// fileOf is the place among the files of the one that has a row.
func (l *loader) fileOf(row int32) int {
	at := len(l.files) - 1
	for at > 0 && int(row) < l.files[at].row {
		at--
	}
	return at
}

// fileNamed is the place among the files of the first with a name.
func (l *loader) fileNamed(name string) int {
	return slices.IndexFunc(l.files, func(f fileStart) bool { return f.name == name })
}

// place is where a row stands, in words: its line, and its file where there are several.
func (l *loader) place(i int) string {
	if len(l.files) == 1 {
		return fmt.Sprintf("line %d", l.line[i])
	}
	return fmt.Sprintf("line %d of %s", l.line[i], l.files[l.fileOf(l.row[i])].name)
}
