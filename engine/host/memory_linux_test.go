package host

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestControlGroups(t *testing.T) {
	const (
		v1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
		v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for _, tt := range []struct{ what, controller, groups, mounts, want string }{
		{"nothing is known", "memory", "", "", ""},
		{"no cgroups", "memory", "nonsense\n:\n", "nonsense\n - \n22 1 0:20 / /proc rw - proc proc rw\n", ""},
		{"the root of version 2", "memory", "0::/\n", v2, "/sys/fs/cgroup"},
		{"all groups above", "cpu", "0::/kubepods.slice/pod1/c:2\n", v2, "/sys/fs/cgroup/kubepods.slice/pod1/c:2 /sys/fs/cgroup/kubepods.slice/pod1 /sys/fs/cgroup/kubepods.slice /sys/fs/cgroup"},
		{"outside of its namespace's root", "memory", "0::/../../x\n", v2, "/sys/fs/cgroup/x /sys/fs/cgroup"},
		{"version 1 names its controllers", "cpu", "4:memory:/a\n3:cpu,cpuacct:/docker/1\n2:cpuset:/b\n", v1, "/sys/fs/cgroup/cpu,cpuacct/docker/1 /sys/fs/cgroup/cpu,cpuacct/docker /sys/fs/cgroup/cpu,cpuacct"},
		{"both versions", "memory", "4:memory:/a\n0::/b\n", v1 + strings.ReplaceAll(v2, "cgroup rw", "cgroup/unified rw"), "/sys/fs/cgroup/memory/a /sys/fs/cgroup/memory /sys/fs/cgroup/unified/b /sys/fs/cgroup/unified"},
		{"a container without a namespace sees its own group as the mount", "memory", "4:memory:/docker/1\n", "35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "/sys/fs/cgroup/memory"},
		{"below what is mounted", "memory", "4:memory:/docker/1/sub\n", "35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "/sys/fs/cgroup/memory/sub /sys/fs/cgroup/memory"},
		{"another group is mounted", "memory", "0::/system.slice\n", "30 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup"},
		{"a namespace whose mount lies above it", "memory", "0::/\n", "30 23 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup"},
		{"one hierarchy twice, a space in its place", "memory", "0::/a\n", `30 23 0:26 / /my\040groups rw - cgroup2 none rw` + "\n" + v2, "/my groups/a /my groups"},
	} {
		expect.Equal(t, strings.Join(cgroups(tt.controller, tt.groups, tt.mounts), " "), tt.want, tt.what)
	}
}

func TestGroupRoom(t *testing.T) {
	const stat1 = "cache 900\ninactive_file 7\nactive_file 7\ntotal_inactive_file 100\ntotal_active_file 50\n"
	for _, tt := range []struct {
		what  string
		files map[string]string
		want  int64 // -1 = no limit
	}{
		{"no files", nil, -1},
		{"version 2, no limit", map[string]string{"memory.max": "max\n", "memory.high": "max\n", "memory.current": "500\n"}, -1},
		{"version 2", map[string]string{"memory.max": "1000\n", "memory.current": "500\n", "memory.stat": "anon 3\nfile 160\ninactive_file 100\nactive_file 50\n"}, 650},
		{"version 2, slowed down before", map[string]string{"memory.max": "1000\n", "memory.high": "800\n", "memory.current": "500\n"}, 300},
		{"version 1, with the groups below", map[string]string{"memory.limit_in_bytes": "1000\n", "memory.usage_in_bytes": "500\n", "memory.stat": stat1}, 650},
		{"more used than allowed", map[string]string{"memory.max": "100\n", "memory.current": "500\n"}, -400},
		{"a usage that cannot be read", map[string]string{"memory.max": "100\n"}, -1},
		{"only files in memory", map[string]string{"memory.max": "100\n", "memory.current": "40\n", "memory.stat": "inactive_file 90\n"}, 100},
	} {
		dir := t.TempDir()
		for name, text := range tt.files {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		if got, ok := cgroupRoom(dir); ok != (tt.want != -1) || ok && got != tt.want {
			t.Errorf("%s: %d, %v; want %d", tt.what, got, ok, tt.want)
		}
	}
}

// TestCollectorKeepsItsDistance: if the live heap exceeds the limit, the limit is raised, so that the collector does
// not run all the time.
func TestCollectorKeepsItsDistance(t *testing.T) {
	c, restore := QuietRuntime()
	defer restore()
	c.limit = 1 << 20
	before := debug.SetMemoryLimit(c.limit)
	c.RaiseLimit()
	live := int64(c.live[0].Value.Uint64())
	if got := debug.SetMemoryLimit(before); got != c.other+live+live/4 || live == 0 {
		t.Errorf("the limit is %d, want a quarter above the %d that live and the %d that are no heap", got, live, c.other)
	}
}
