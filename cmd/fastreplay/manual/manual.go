// Package manual has the pages of `fastreplay help`, and lays them out for a terminal.
//
// A page is Markdown, named after its topic. Parts between marks are generated: `go generate` below. Pure functions of
// texts; any goroutine may call them.
//
// The package is not an API: any release may change it.
package manual

import (
	"embed"
	"strings"
)

//go:generate go test -run TestManualIsFresh .. -update
//go:embed *.md
var files embed.FS

// Topics returns the names of the pages, sorted.
func Topics() (names []string) {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("BUG: the manual is not embedded: " + err.Error())
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	return names
}

// Page returns the page about a topic, "" if there is none.
func Page(topic string) string {
	text, _ := files.ReadFile(topic + ".md") // the only error is that there is no such page
	return string(text)
}
