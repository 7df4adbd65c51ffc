package engine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// memAvailable reads MemAvailable, in bytes, from a file in the form of /proc/meminfo.
func memAvailable(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			var kib int64
			if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
				return 0, fmt.Errorf("%s: MemAvailable:%s: %w", path, rest, err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.Join(fmt.Errorf("%s: no MemAvailable", path), lines.Err())
}
