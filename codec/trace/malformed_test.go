package trace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refusals is what each malformed trace in testdata must be refused with: how the message begins after the file's name.
func refusals() map[string]string {
	return map[string]string{
		"azure-before-1970.csv":                 `:3: TIMESTAMP "1969-12-31 23:59:59" is out of range; it must be from 1970 to 2262`,
		"azure-column-twice.csv":                `:1: two columns are named ContextTokens; keep one of them`,
		"azure-fractional-tokens.csv":           `:3: ContextTokens 4.5 is no whole number; `,
		"azure-head-only.csv":                   `: the trace is empty; `,
		"azure-missing-tokens.csv":              `:3: missing ContextTokens; `,
		"azure-no-such-day.csv":                 `:3: TIMESTAMP is "2023-02-30 18:17:04", not a date; write it as `,
		"azure-not-a-date.csv":                  `:3: TIMESTAMP is "1700158623.97", not a date; write it as `,
		"azure-open-quote.csv":                  `:3: a quoted value does not end; `,
		"azure-text-after-quote.csv":            `:3: text after a closing quote: 18:17:04.0000000,480,1; `,
		"azure-tokens-as-text.csv":              `:3: ContextTokens is "many", not a number; write it in digits`,
		"azure-too-few-values.csv":              `:3: 2 values under 3 columns; `,
		"bad-escape.jsonl":                      ":2: invalid JSON at byte 13: an escape that JSON does not have; ",
		"bad-parent.jsonl":                      ":2: parent_chat_id -7 is out of range; it must be from -1 to 9223372036854775807\n",
		"blank-lines.jsonl":                     ": the trace is empty; ",
		"burstgpt-date.csv":                     `:3: Timestamp is "2023-11-16 18:17:04", not a number; `,
		"burstgpt-decimal-comma.csv":            `:3: 9 values under 8 columns; `,
		"burstgpt-huge-request-tokens.csv":      `:3: Request tokens 472000000 is out of range; it must be from 1 to 16777216`,
		"burstgpt-long-log-type.csv":            `:3: Log Type has 130 bytes; 128 at most`,
		"burstgpt-negative-response-tokens.csv": `:3: Response tokens -1 is out of range; `,
		"burstgpt-negative-timestamp.csv":       `:3: Timestamp -45 is negative; `,
		"burstgpt-no-request-tokens.csv":        `:3: Request tokens 0 is out of range; `,
		"burstgpt-only-failures.csv":            `: each of the 2 requests failed when it was recorded; `,
		"control-character.jsonl":               ":2: invalid JSON at byte 7: a control character in a string; ",
		"cut-short.jsonl.gz":                    ":122: reading: unexpected EOF; the file is damaged or cut short",
		"damaged.jsonl.zst":                     ":151: reading: CRC check failed; the file is damaged or cut short",
		"empty.jsonl":                           ": the trace is empty; ",
		"fractional-input-length.jsonl":         ":2: input_length 1024.5 is no whole number; ",
		"git-lfs-pointer.jsonl":                 " is a Git LFS pointer, not the trace itself; run: git lfs pull",
		"hash-id-as-text.jsonl":                 `:2: hash_ids[1] is "48"; an id is a whole number from 0 to 18446744073709551615`,
		"hash-ids-not-a-list.jsonl":             `:2: hash_ids is "46,48", not a list; `,
		"huge-hash-id.jsonl":                    ":2: hash_ids[1] is 18446744073709551616; ",
		"huge-input-length.jsonl":               ":2: input_length 123456789 is out of range; it must be from 1 to 16777216",
		"input-length-as-text.jsonl":            `:2: input_length is "1024", not a number; `,
		"json-array.jsonl":                      ":1: a JSON array, not JSONL; write one object a line, for example with: jq -c '.[]'",
		"leading-zero.jsonl":                    ":2: invalid JSON at byte 34: a number with a leading zero; ",
		"many-faults.jsonl":                     ":2: input_length -1 is out of range; it must be from 1 to 16777216\n",
		"milliseconds-as-seconds.jsonl":         ": 40 rows over 1354h10m0s, one every 34h43m20s on average, which smells of the wrong time unit (s); pass --time-unit ms if ",
		"missing-chat-id.jsonl":                 ":2: missing chat_id; ",
		"missing-lengths.jsonl":                 ":3: missing input_length, output_length; ",
		"missing-timestamp.jsonl":               ":2: missing timestamp; ",
		"mooncake-delay-without-session.jsonl":  `:2: delay without session_id; `,
		"mooncake-empty-messages.jsonl":         `:2: messages is empty; `,
		"mooncake-empty-text.jsonl":             `:2: text_input is empty; `,
		"mooncake-extra-not-object.jsonl":       `:2: extra is [1], not an object; write it as {"temperature":0}`,
		"mooncake-ids-without-length.jsonl":     `:2: hash_ids without input_length; `,
		"mooncake-input-without-output.jsonl":   `:2: missing output_length; `,
		"mooncake-message-not-object.jsonl":     `:2: messages[1] is "Hello", not an object; `,
		"mooncake-negative-delay.jsonl":         `:2: delay -5 is negative; `,
		"mooncake-no-prompt.jsonl":              `:2: missing input_length; a row needs input_length and output_length, or text_input, messages or payload`,
		"mooncake-payload-not-object.jsonl":     `:2: payload is "{\"model\":\"m\"}", not an object; `,
		"mooncake-session-not-text.jsonl":       `:2: session_id is ["a"], neither text nor a number; `,
		"mooncake-some-timestamps.jsonl":        `:2: missing timestamp; other rows have one: `,
		"mooncake-text-not-text.jsonl":          `:2: text_input is ["Hello"], not a string; `,
		"mooncake-tools-without-messages.jsonl": `:2: tools without messages; `,
		"mooncake-two-prompts.jsonl":            `:2: several of text_input, messages; a row has exactly one of them`,
		"nan-timestamp.jsonl":                   ":2: invalid JSON at byte 14: want a value; ",
		"negative-chat-id.jsonl":                ":2: chat_id -2 is out of range; ",
		"negative-hash-id.jsonl":                ":2: hash_ids[1] is -48; ",
		"negative-input-length.jsonl":           ":2: input_length -1024 is out of range; ",
		"negative-output-length.jsonl":          ":2: output_length -1 is out of range; it must be from 0 to 16777216",
		"negative-timestamp.jsonl":              ":2: timestamp -0.001 is negative; ",
		"not-an-object.jsonl":                   ":2: invalid JSON at byte 1: want a row, an object {…}; ",
		"parent-loop.jsonl":                     ":1: chat_id 1 is its own ancestor; ",
		"repeated-key.jsonl":                    ":2: output_length occurs twice; ",
		"seconds-as-milliseconds.jsonl":         ": 120 rows within 35.7ms, 40536134 input tokens a second, which smells of the wrong time unit (ms); pass --time-unit s if ",
		"single-quotes.jsonl":                   ":2: invalid JSON at byte 2: want a string; ",
		"text-after-row.jsonl":                  ":2: invalid JSON at byte 78: text after the row's object; ",
		"timestamp-as-text.jsonl":               `:2: timestamp is "2023-11-16 18:17:03.9799600", not a number; `,
		"timestamp-out-of-range.jsonl":          ":2: timestamp 1e30 is out of range (292 years); ",
		"trailing-comma.jsonl":                  ":2: invalid JSON at byte 77: want a string; ",
		"truncated-row.jsonl":                   ":3: invalid JSON at byte 60: the line ends too early; ",
		"type-not-text.jsonl":                   `:2: type is ["text"], not a string; `,
		"unknown-columns.csv":                   `:1: unknown format: CSV with the columns when, prompt, answer; known heads have TIMESTAMP, ContextTokens, GeneratedTokens (azure); or Timestamp, `,
		"unknown-keys.jsonl":                    `:1: unknown format: a row with the keys arrived, prompt, max_tokens; name its keys with --fields, as in --fields timestamp=arrived`,
		"wrong-block-size.jsonl":                ": 12 of 12 rows have a number of hash ids that is not input_length / 512 rounded up, first line 1 (7 ids for 100 tokens); the ids fit blocks of 16 tokens: pass --block-tokens 16",
		"zero-input-length.jsonl":               ":2: input_length 0 is out of range; it must be from 1 to 16777216",
	}
}

func TestMalformed(t *testing.T) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	refusals := refusals()
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		path := filepath.Join("testdata", f.Name())
		want, known := refusals[f.Name()]
		if !known {
			t.Errorf("%s: no refusal is listed", path)
			continue
		}
		delete(refusals, f.Name())
		if _, err := Open(path, Options{}); err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%s:\n%v\nmust begin with\n%s", path, err, path+want)
		}
	}
	for name := range refusals {
		t.Errorf("testdata/%s is missing", name)
	}
}

func TestTenFaultsAndTheRest(t *testing.T) {
	_, err := Open("testdata/many-faults.jsonl", Options{})
	var lint *LintError
	if !errors.As(err, &lint) || len(lint.Faults) != 10 || lint.More != 14 || lint.Good != 12 {
		t.Fatalf("got %+v, want 10 faults, 14 more and 12 good rows", lint)
	}
	if f := lint.Faults[9]; f.Line != 15 || f.File != "testdata/many-faults.jsonl" || f.What != "input_length -14 is out of range" {
		t.Errorf("the tenth fault is %+v", f)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 12 || lines[10] != "… and 14 more" || lines[11] != "24 of 36 rows cannot be replayed; mend them, or leave them out with --lenient" {
		t.Errorf("the message ends with %q", lines[10:])
	}
}

// TestLoneFaultIsDropped makes sure that lenient reading saves the rows beside a bad one.
func TestLoneFaultIsDropped(t *testing.T) {
	for _, name := range []string{"bad-escape", "trailing-comma", "huge-hash-id", "repeated-key", "timestamp-as-text", "missing-chat-id", "type-not-text", "truncated-row"} {
		tr, err := Open("testdata/"+name+".jsonl", Options{Lenient: true})
		if err != nil || tr.Len() != 2 || tr.FileRows != 3 || tr.Lint.Dropped != 1 {
			t.Errorf("%s: %+v, %v; want 2 of 3 rows", name, tr, err)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	l := newLoader("t", Options{Format: "mooncake", Lenient: true})
	row := `{"timestamp":1,"input_length":1,"output_length":1}`
	lines := newLineReader(strings.NewReader(row + "\n" + row + strings.Repeat(" ", 600_000) + "\n" + row))
	lines.longest = 500_000
	if err := l.readAll(lines); err != nil {
		t.Fatal(err)
	}
	tr, err := l.finish()
	if err != nil || tr.Len() != 2 || tr.Lint.Dropped != 1 || tr.Lint.Faults[0].Line != 2 {
		t.Errorf("%+v, %v; want the second of three rows dropped", tr, err)
	}
	want(t, "Row", tr.Row, []int32{0, 2})
}

// TestOnlyLineTooLong has no line from which a format could be told.
func TestOnlyLineTooLong(t *testing.T) {
	for _, lenient := range []bool{false, true} {
		l := newLoader("t", Options{Lenient: lenient})
		lines := newLineReader(strings.NewReader(strings.Repeat(" ", 600_000)))
		lines.longest = 500_000
		if err := l.readAll(lines); err != nil {
			t.Fatal(err)
		}
		if _, err := l.finish(); err == nil || !strings.Contains(err.Error(), "t:1: the line is longer than 64 MiB; ") {
			t.Errorf("lenient %v: %v", lenient, err)
		}
	}
}
