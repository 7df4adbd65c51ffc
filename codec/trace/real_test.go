package trace

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// realPath is the Mooncake conversation trace (FAST25-release/traces/conversation_trace.jsonl, packed with zstd), if it
// is there.
func realPath(tb testing.TB) string { return publishedPath(tb, "mooncake-conversation.jsonl.zst") }

func publishedPath(tb testing.TB, name string) string {
	tb.Helper()
	dir := os.Getenv("FASTREPLAY_TRACES")
	if dir == "" {
		tb.Skip("FASTREPLAY_TRACES does not name a folder with " + name)
	}
	return filepath.Join(dir, name)
}

// realTrace is that trace unpacked.
func realTrace(tb testing.TB) []byte {
	tb.Helper()
	packed, err := os.ReadFile(realPath(tb))
	must.Do(tb, err)
	z, err := zstd.NewReader(bytes.NewReader(packed))
	must.Do(tb, err)
	defer z.Close()
	plain, err := io.ReadAll(z)
	must.Do(tb, err)
	return plain
}

// TestConversationTrace checks the published trace against numbers that were computed from the file by other means.
// Table 2 of the Mooncake paper (FAST'25) has them rounded.
func TestConversationTrace(t *testing.T) {
	tr := must.Have(Open(realPath(t), Options{Strict: true}))(t)
	checkInvariants(t, tr)
	var input, output, most int64
	instants := map[int64]int{}
	crowd := 0
	for i := range tr.Len() {
		input += int64(tr.InputTokens[i])
		output += int64(tr.OutputTokens[i])
		most = max(most, int64(tr.InputTokens[i]))
		instants[tr.ArrivalNS[i]]++
		crowd = max(crowd, instants[tr.ArrivalNS[i]])
	}
	want(t, "rows, input tokens, longest input, block references, instants, requests at one, span", []int64{int64(tr.Len()), input, most, int64(tr.BlockRefs()), int64(len(instants)), int64(crowd), tr.SpanNS()},
		[]int64{12_031, 144_793_823, 126_195, 288_500, 1_180, 28, 3_536_999_000_000})
	n := float64(tr.Len())
	if in, out := float64(input)/n, float64(output)/n; math.Abs(in-12_035.06) > 0.005 || math.Abs(out-342.62) > 0.005 {
		t.Errorf("means %.3f and %.3f, want 12035.06 and 342.62", in, out)
	}
	expect.Near(t, reuseOf(tr), (1 - 182_790.0/288_500), 1e-12, "of the blocks were seen before, want %.6f (182,790 distinct)", 1-182_790.0/288_500)
}

// TestAzureCodeTrace checks the published trace of Azure's code service (AzureLLMInferenceTrace_code.csv of 2023)
// against numbers that were computed from the file by other means.
func TestAzureCodeTrace(t *testing.T) {
	tr := must.Have(Open(publishedPath(t, "azure-code.csv"), Options{Strict: true}))(t)
	checkInvariants(t, tr)
	if tr.Format != "azure" || tr.Len() != 8819 || tr.FileRows != 8819 || len(tr.Lint.Notes()) != 0 || tr.BlockRefs() != 0 {
		t.Errorf("%s, %d of %d rows, notes %q, %d block ids", tr.Format, tr.Len(), tr.FileRows, tr.Lint.Notes(), tr.BlockRefs())
	}
	mean := func(column []int32) float64 {
		var sum float64
		for _, n := range column {
			sum += float64(n)
		}
		return math.Round(10*sum/float64(len(column))) / 10
	}
	median := func(column []int32) float64 { return float64(slices.Sorted(slices.Values(column))[len(column)/2]) }
	span := float64(tr.SpanNS()) / 1e9
	want(t, "span, rate, context mean, median and max, generated mean and median", []float64{math.Round(span*10) / 10, math.Round(1000*float64(tr.Len())/span) / 1000,
		mean(tr.InputTokens), median(tr.InputTokens), float64(slices.Max(tr.InputTokens)), mean(tr.OutputTokens), median(tr.OutputTokens)},
		[]float64{3435.9, 2.567, 2047.8, 1469, 7437, 27.9, 13})
}
