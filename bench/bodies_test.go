package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// recordedBodies is what a file of a format holds, in order of its rows, read without this module's reader.
func recordedBodies(t *testing.T, format string, file []byte) []string {
	t.Helper()
	var bodies []string
	decode := func(text []byte, to any) {
		if err := json.Unmarshal(text, to); err != nil {
			t.Fatal(err)
		}
	}
	if format == "inputs_json" {
		var all struct {
			Data []struct{ Payloads []json.RawMessage }
		}
		decode(file, &all)
		for _, session := range all.Data {
			for _, body := range session.Payloads {
				bodies = append(bodies, string(body))
			}
		}
		return bodies
	}
	for line := range bytes.Lines(file) {
		var row struct {
			Body        json.RawMessage
			CaptureData struct {
				EndpointInput struct{ Data, Encoding string }
			}
		}
		decode(line, &row)
		asked := row.CaptureData.EndpointInput
		switch {
		case format == "raw_payload":
			bodies = append(bodies, string(bytes.TrimSpace(line)))
		case format == "batch":
			bodies = append(bodies, string(row.Body))
		case asked.Encoding == "BASE64":
			plain, err := base64.StdEncoding.DecodeString(asked.Data)
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, string(plain))
		default:
			bodies = append(bodies, asked.Data)
		}
	}
	return bodies
}

// TestBodyFormats replays the bundled traces that hold whole bodies. Each arrives once, byte for byte. The mock counts words, and
// finds as many tokens as were recorded.
func TestBodyFormats(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"raw_payload.jsonl": {"--rate", "100"}, "inputs.json": {"--concurrency", "8"}, "batch.jsonl": {"--rate", "100"}, "sagemaker.jsonl": {"--scale", "4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("samples", name)
			file := readFile(t, path)
			recorded, err := trace.Open(path, trace.Options{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			want := recordedBodies(t, recorded.Format, file)

			r, got := sent(t, string(file), with(args, "--api", "chat")...)
			if len(r.lines) != len(want) || len(got) != len(want) {
				t.Fatalf("%d requests of %d rows, want %d", len(r.lines), len(got), len(want))
			}
			for row, body := range want {
				if got[int64(row)] != body {
					t.Fatalf("row %d\ngot  %s\nwant %s", row, got[int64(row)], body)
				}
			}

			m := startMock(t)
			r = run(t, with(args, path, "--url", m.url, "--api", "chat")...)
			r.prove(t)
			log := m.stop(t)
			r.only(t, "ok")
			for _, l := range r.lines {
				i := slices.Index(recorded.Row, int32(l.Row))
				if came := log[l.ID]; len(came) != 1 || came[0].Prompt != l.Prompt || came[0].Completion != l.Completion {
					t.Errorf("row %d: %d → %d tokens here, %+v there", l.Row, l.Prompt, l.Completion, came)
				}
				if in, out := int64(recorded.InputTokens[i]), int64(recorded.OutputTokens[i]); in > 0 && (l.Prompt != in || l.Completion != out) {
					t.Errorf("row %d: %d → %d tokens; recorded are %d → %d", l.Row, l.Prompt, l.Completion, in, out)
				}
			}
			if recorded.Format == "sagemaker" && recorded.InputTokens[0] == 0 {
				t.Error("no tokens are recorded")
			}
		})
	}
}
