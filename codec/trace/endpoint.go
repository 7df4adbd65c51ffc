package trace

import "fmt"

// endpoint is the path that all rows name, and the first of them.
type endpoint struct {
	path string // "" = none was named yet
	file string
	line int
}

// refuseEndpoint is the error for a row that names another path than those before, since a run has one.
func (l *loader) refuseEndpoint(r *row, line int) error {
	switch {
	case r.endpoint == "" || r.endpoint == l.endpoint.path:
		return nil
	case l.endpoint.path == "":
		l.endpoint = endpoint{r.endpoint, l.name, line}
		return nil
	}
	return &rowError{
		fmt.Sprintf("url is %s, but %s:%d is for %s", quote([]byte(r.endpoint)), l.endpoint.file, l.endpoint.line, l.endpoint.path),
		"a run has one endpoint: split the file by it",
	}
}
