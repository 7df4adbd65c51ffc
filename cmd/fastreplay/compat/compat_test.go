package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestExpand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a=b")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	flags := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	for name, short := range map[string]string{"extra-inputs": "", "header": "H", "goodput": "", "url": "u"} {
		flags.StringArrayP(name, short, nil, "")
	}
	for line, want := range map[string]string{
		"":                           "",
		"t.jsonl":                    "t.jsonl",
		"--extra-inputs a:1 t.jsonl": "--extra-inputs a:1 t.jsonl",
		"--extra-inputs a:1 b:2 c=3 t.jsonl --rate 3":         "--extra-inputs a:1 --extra-inputs b:2 --extra-inputs c=3 t.jsonl --rate 3",
		"--extra-inputs a:1 " + file:                          "--extra-inputs a:1 " + file,
		"--extra-inputs=a:1 t.jsonl":                          "--extra-inputs=a:1 t.jsonl",
		"--extra-inputs":                                      "--extra-inputs",
		"--metadata a=1 b=2 --rate 3":                         "--metadata a=1 --metadata b=2 --rate 3",
		"--gpu-telemetry t.jsonl":                             "--gpu-telemetry= t.jsonl",
		"-H A:b C:d -- --extra-inputs a:1 b:2":                "-H A:b -H C:d -- --extra-inputs a:1 b:2",
		"profile --gpu-telemetry --rate 3":                    "profile --gpu-telemetry= --rate 3",
		"profile --gpu-telemetry pynvml x --rate 3":           "profile --gpu-telemetry pynvml --gpu-telemetry x --rate 3",
		"profile -u a b -m m":                                 "profile -u a -u b -m m",
		"profile --stream metrics timing":                     "profile --stream metrics --stream timing",
		"--stream a=b":                                        "--stream a=b",
		"profile --input-file t --extra-inputs a:1 {\"b\":2}": "profile --input-file t --extra-inputs a:1 --extra-inputs {\"b\":2}",
	} {
		expect.Equal(t, strings.Join(Expand(strings.Fields(line), flags, strings.HasPrefix(line, "profile")), " "), want, line)
	}
}
