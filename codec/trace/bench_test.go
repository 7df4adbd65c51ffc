package trace

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// benchTrace is a generated file of about 3 MB. In Mooncake's format prompts are as long as the conversation trace's,
// in Bailian's as long as those of a chat service.
func benchTrace(tb testing.TB, format string) []byte {
	tb.Helper()
	g := Gen{Format: format, ArrivalNS: spaced(12_000, 1e8), InputTokens: Range{1000, 23_000}, OutputTokens: Range{10, 700}, Reuse: 0.37, Seed: 1}
	if format == "bailian" {
		g.ArrivalNS, g.InputTokens, g.Turns = g.ArrivalNS[:6000], Range{100, 2000}, Range{1, 8}
	}
	tr, err := Generate(g)
	must.Do(tb, err)
	var file bytes.Buffer
	must.Do(tb, Write(&file, tr, format))
	return file.Bytes()
}

func benchmarkRead(b *testing.B, file []byte) {
	rows := bytes.Count(bytes.TrimSpace(file), []byte("\n")) + 1
	if file[0] != '{' {
		rows-- // the head of a CSV file
	}
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		tr, err := Read(bytes.NewReader(file), "bench", Options{})
		if err != nil || tr.Len() != rows {
			b.Fatal(tr.Len(), err)
		}
	}
}

func BenchmarkReadConversationTrace(b *testing.B) { benchmarkRead(b, realTrace(b)) }
func BenchmarkReadMooncake(b *testing.B)          { benchmarkRead(b, benchTrace(b, "mooncake")) }
func BenchmarkReadBailian(b *testing.B)           { benchmarkRead(b, benchTrace(b, "bailian")) }

func BenchmarkReadAzureCode(b *testing.B) {
	file, err := os.ReadFile(publishedPath(b, "azure-code.csv"))
	must.Do(b, err)
	benchmarkRead(b, file)
}

// BenchmarkParse is the scanner of JSONL alone.
func BenchmarkParse(b *testing.B) {
	for _, f := range formats.All() {
		if f.Write == nil || f.CSV {
			continue // its rows are short: BenchmarkReadAzureCode
		}
		b.Run(f.Name, func(b *testing.B) {
			file := benchTrace(b, f.Name)
			lines := bytes.Split(bytes.TrimSpace(file), []byte("\n"))
			p := rows.NewReader(&f.Layout, f.Unit)
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				for _, line := range lines {
					if _, err := p.Parse(line); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkStandardLibrary decodes the same rows with encoding/json, for comparison.
func BenchmarkStandardLibrary(b *testing.B) {
	file := benchTrace(b, "mooncake")
	lines := bytes.Split(bytes.TrimSpace(file), []byte("\n"))
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		var r struct {
			Timestamp json.Number `json:"timestamp"`
			Input     int32       `json:"input_length"`
			Output    int32       `json:"output_length"`
			IDs       []uint64    `json:"hash_ids"`
		}
		for _, line := range lines {
			if err := json.Unmarshal(line, &r); err != nil || r.Input == 0 {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	tr, err := Read(bytes.NewReader(benchTrace(b, "mooncake")), "bench", Options{})
	must.Do(b, err)
	b.ReportAllocs()
	for b.Loop() {
		var n counter
		must.Do(b, Write(&n, tr, "mooncake"))
		b.SetBytes(int64(n))
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
