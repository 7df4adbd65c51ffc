package trace

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

const (
	rawFile = `{"model":"m","messages":[{"role":"user","content":"Hi\u0021  \"é\""}], "max_tokens" : 4}` + "\n" +
		"\n" +
		` {"model":"m","prompt":"x","stream":null} ` + "\r\n" +
		`{"inputs":"a","parameters":{"max_new_tokens":3}}` + "\n"

	inputsFile = `{
  "data": [
    {"session_id": "a", "payloads": [
      {"model": "m",
       "messages": [{"role": "user", "content": "one"}]},
      {"model": "m", "messages": [1]}
    ]},
    {"session_id": "b", "payloads": [{"prompt": "two"}], "extra": 1}
  ]
}
`
	genAIFile = `{"data":[{"payload":[{"model":"m","messages":[1]}],"session_id":["a"],"timestamp":[1500]},` +
		`{"payload":[{"model":"m","messages":[2]}],"timestamp":[500.5]},{"payload":[{"model":"m","messages":[3]}],"session_id":["a"],"timestamp":[2500]}]}`

	batchFile = `{"custom_id":"request-1","method":"POST","url":"/v1/chat/completions","body":{"model":"m", "messages":[]}}` + "\n" +
		`{"body":{"model":"m","messages":[1]},"custom_id":null,"url":"/v1/chat/completions"}` + "\n"
)

// captureRow is a line of SageMaker's data capture.
func captureRow(date, encoding, input, output string) string {
	if encoding == "BASE64" {
		input, output = base64.StdEncoding.EncodeToString([]byte(input)), base64.StdEncoding.EncodeToString([]byte(output))
	}
	part := func(mode, data string) string {
		text, _ := json.Marshal(data) // a string has a JSON form
		return `{"observedContentType":"application/json","mode":"` + mode + `","data":` + string(text) + `,"encoding":"` + encoding + `"}`
	}
	return `{"captureData":{"endpointInput":` + part("INPUT", input) + `,"endpointOutput":` + part("OUTPUT", output) +
		`},"eventMetadata":{"eventId":"e","inferenceTime":"` + date + `"},"eventVersion":"0"}` + "\n"
}

func captureFile() string {
	stream := `data: {"choices":[],"usage":null}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":12}}` + "\n\ndata: [DONE]\n\n"
	return captureRow("2022-02-14T17:25:07Z", "JSON", "{\"model\":\"m\",\n \"messages\":[]}\n", `{"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}`) +
		captureRow("2022-02-14T17:25:06Z", "BASE64", `{"inputs":"é","parameters":{}}`, stream) +
		captureRow("2022-02-14T17:25:07Z", "JSON", `{"model":"m","prompt":"x"}`, `[{"generated_text":"y"}]`) +
		captureRow("2022-02-14T18:25:09.5+01:00", "JSON", `{"model":"m","prompt":"z"}`, `{"usage":{"prompt_tokens":1e3,"completion_tokens":99999999}}`)
}

// bodies are the bodies of a trace in order of arrival.
func bodies(t *testing.T, tr *Trace) []string {
	t.Helper()
	var all []string
	for i := range tr.Len() {
		l := tr.Verbatim(i)
		if l.Kind != VerbatimPayload || l.Tools != nil || l.Extra != nil {
			t.Fatalf("request %d: %+v", i, l)
		}
		all = append(all, "{"+string(l.Content)+"}")
	}
	return all
}

// TestRawPayloadSessions: in a directory a file is a session.
func TestRawPayloadSessions(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.jsonl": `{"model":"m","prompt":"b1"}` + "\n" + `{"model":"m","prompt":"b2"}`,
		"a.jsonl": `{"model":"m","prompt":"a1"}`, "notes.txt": "no trace",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	tr := must.Have(Open(dir, Options{}))(t)
	checkInvariants(t, tr)
	want(t, "bodies", bodies(t, tr), []string{`{"model":"m","prompt":"a1"}`, `{"model":"m","prompt":"b1"}`, `{"model":"m","prompt":"b2"}`})
	want(t, "Turn", tr.Turn, []int32{1, 1, 2})
	want(t, "sessions", []string{tr.SessionName(0), tr.SessionName(1), tr.SessionName(2)}, []string{"a.jsonl", "b.jsonl", "b.jsonl"})
}

// TestSageMakerDirectory: the files of an endpoint as they lie in S3, merged in time; a request is of no session.
func TestSageMakerDirectory(t *testing.T) {
	dir := t.TempDir()
	for hour, text := range map[string]string{
		"16": captureRow("2022-02-14T16:59:59Z", "JSON", `{"n":1}`, "{}") + captureRow("2022-02-14T17:00:01Z", "JSON", `{"n":3}`, "{}"),
		"17": captureRow("2022-02-14T17:00:00Z", "BASE64", `{"n":2}`, "{}"),
	} {
		hour = filepath.Join(dir, "endpoint", "AllTraffic", "2022", "02", "14", hour)
		must.Do(t, os.MkdirAll(hour, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(hour, "00-00-000-x.jsonl"), []byte(text), 0o600))
	}
	tr := must.Have(Open(dir, Options{Strict: true}))(t)
	want(t, "bodies", bodies(t, tr), []string{`{"n":1}`, `{"n":2}`, `{"n":3}`})
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 1e9, 2e9})
	if tr.Session != nil || tr.Lint.SameSecond != 0 {
		t.Errorf("%+v", tr)
	}
}

// TestEndpointsOfGoodRows: a row that is refused has no say in which endpoint the others must name, in whichever file
// they are.
func TestEndpointsOfGoodRows(t *testing.T) {
	other := strings.ReplaceAll(batchFile, "/v1/chat/completions", "/v1/completions")
	tr := read(t, strings.Replace(other, `"body":{"model":"m", "messages":[]}`, `"body":{}`, 1)+batchFile, Options{Lenient: true})
	if tr.Endpoint != "/v1/completions" || tr.Lint.Dropped != 3 || tr.Len() != 1 {
		t.Errorf("%+v", tr)
	}
	tr = read(t, `{"url":"/v1/completions","body":{}}`+"\n"+batchFile, Options{Lenient: true})
	if tr.Endpoint != "/v1/chat/completions" || tr.Lint.Dropped != 1 || tr.Len() != 2 {
		t.Errorf("%+v", tr)
	}
	_, err := openAll(t, Options{}, batchFile, other)
	if err == nil || !strings.HasPrefix(err.Error(), `b:1: url is "/v1/completions", but a:1 is for /v1/chat/completions; `) {
		t.Error(err)
	}
}

// TestBodiesAsDocument: a JSON list of what are lines otherwise.
func TestBodiesAsDocument(t *testing.T) {
	for _, file := range []string{rawFile, batchFile, captureFile()} {
		list := "[\n" + strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(file, "\n\n", "\n")), "\n", ",\n") + "]"
		lines, document := read(t, file, Options{}), read(t, list, Options{})
		sameTrace(t, document, lines)
		want(t, "bodies", bodies(t, document), bodies(t, lines))
	}
}

// oracleRows is what a format must find in an object, by encoding/json; not sure means that it may find otherwise.
type oracleRows func(object []byte) (found []rows.Row, ok, sure bool)

func oracles() map[string]oracleRows {
	return map[string]oracleRows{"raw_payload": oracleRawPayload, "batch": oracleBatch, "inputs_json": oracleInputs, "sagemaker": oracleCapture}
}

// oracleMembers is the members of an object that are not null; a key that occurs twice is not ok.
func oracleMembers(object []byte) (map[string]json.RawMessage, bool) {
	if !json.Valid(object) || bytes.TrimSpace(object)[0] != '{' {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	met, values := map[string]bool{}, map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil || met[key.(string)] {
			return nil, false
		}
		met[key.(string)] = true
		if string(value) != "null" {
			values[key.(string)] = value
		}
	}
	return values, true
}

func oracleBody(body []byte) (rows.Row, bool) {
	if _, ok := oracleMembers(body); !ok {
		return rows.Row{}, false
	}
	var members map[string]any
	if json.Unmarshal(body, &members) != nil || len(members) == 0 {
		return rows.Row{}, false
	}
	body = bytes.TrimSpace(body)
	return rows.Row{Verbatim: Verbatim{Kind: VerbatimPayload, Content: body[1 : len(body)-1]}}, true
}

func oracleRawPayload(object []byte) ([]rows.Row, bool, bool) {
	r, ok := oracleBody(object)
	return []rows.Row{r}, ok, true
}

func oracleBatch(object []byte) ([]rows.Row, bool, bool) {
	m, ok := oracleMembers(object)
	if !ok {
		return nil, false, true
	}
	r, good := oracleBody(m["body"])
	ok = good && (m["custom_id"] == nil || m["custom_id"][0] == '"') && (m["method"] == nil || strings.EqualFold(string(m["method"]), `"post"`))
	if err := json.Unmarshal(m["url"], &r.Endpoint); err != nil || !strings.HasPrefix(r.Endpoint, "/") {
		ok = false
	}
	return []rows.Row{r}, ok, !bytes.Contains(m["url"], []byte(`\`)) // an escaped slash is not taken
}

func oracleInputs(object []byte) (found []rows.Row, ok, sure bool) {
	m, ok := oracleMembers(object)
	if !ok || (m["payloads"] == nil) == (m["payload"] == nil) || m["payloads"] != nil && m["session_id"] == nil {
		return nil, false, true
	}
	var list []json.RawMessage
	if json.Unmarshal(append(m["payloads"], m["payload"]...), &list) != nil || len(list) == 0 {
		return nil, false, true
	}
	only := func(value []byte) []byte {
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil && len(list) == 1 {
			return list[0]
		}
		return value
	}
	for _, body := range list {
		r, good := oracleBody(body)
		ok = ok && good
		if session := only(m["session_id"]); session != nil && string(session) != "null" {
			r.Seen |= rows.SetOf(rows.SessionField)
			ok = oracleSession(&r, session) && ok
		}
		if at := only(m["timestamp"]); at != nil && string(at) != "null" {
			r.Seen |= rows.SetOf(rows.TimestampField)
			good, sure := oracleNumber(&r, rows.TimestampField, at)
			if !sure {
				return nil, false, false
			}
			ok = ok && good
		}
		found = append(found, r)
	}
	return found, ok, true
}

func oracleCapture(object []byte) (found []rows.Row, ok, sure bool) {
	m, _ := oracleMembers(object)
	event, okEvent := oracleMembers(m["eventMetadata"])
	data, okData := oracleMembers(m["captureData"])
	input, okInput := oracleMembers(data["endpointInput"])
	if !okEvent || !okData || !okInput {
		return nil, false, true
	}
	var date string
	if json.Unmarshal(event["inferenceTime"], &date) != nil {
		return nil, false, true
	}
	at, isDate := oracleDate(date)
	if !isDate || at.Unix() < 0 {
		return nil, false, true
	}
	text, ok := oracleCaptured(input)
	if !ok {
		return nil, false, true
	}
	r, ok := oracleBody(text)
	r.TimeNS = at.UnixNano()
	r.Seen = rows.SetOf(rows.TimestampField)
	if output, has := oracleMembers(data["endpointOutput"]); has {
		answer, readable := oracleCaptured(output)
		all, isObject := oracleMembers(answer)
		if readable && !isObject {
			return nil, ok, false // it may be a stream
		}
		usage, _ := oracleMembers(all["usage"])
		r.InputTokens, r.OutputTokens = oracleTokens(usage["prompt_tokens"]), oracleTokens(usage["completion_tokens"])
	}
	return []rows.Row{r}, ok, true
}

func oracleCaptured(part map[string]json.RawMessage) ([]byte, bool) {
	var text string
	if len(part["data"]) == 0 || json.Unmarshal(part["data"], &text) != nil {
		return nil, false
	}
	switch string(part["encoding"]) {
	case `"JSON"`:
		return []byte(text), true
	case `"BASE64"`, "":
		plain, err := base64.StdEncoding.DecodeString(text)
		return plain, err == nil
	}
	return nil, false
}

func oracleTokens(value []byte) int32 {
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil || n > rows.MaxTokens {
		return 0
	}
	return int32(n)
}

// checkItems compares what each format finds in an object with the oracle's rows. Whatever it is, all or nothing is
// taken.
func checkItems(t *testing.T, object []byte) {
	t.Helper()
	oracles := oracles()
	for _, f := range formats.All() {
		if f.Import == nil {
			continue
		}
		l := newLoader(Options{Format: f.Name, TimeUnit: time.Second})
		l.begin("t", "")
		if f.Name == "agentic_mooncake" {
			head, _, _ := strings.Cut(graphFile, "\n")
			l.take([]byte(head), 1)
		}
		l.take(object, 2)
		if end := l.input.format.Import.End; end != nil {
			end(l.newBatch())
		}
		if bad := l.faultRows != 0; l.faultRows > 1 || bad && len(l.ArrivalNS) > 0 || l.FileRows != max(len(l.ArrivalNS)+l.Lint.Failed, 1) && !l.input.told {
			t.Fatalf("%s, %q: %d faults and %d rows, %d in all", f.Name, object, l.faultRows, len(l.ArrivalNS), l.FileRows)
		}
		if oracles[f.Name] == nil {
			continue
		}
		found, ok, sure := oracles[f.Name](object)
		switch {
		case !sure:
			continue
		case ok != (l.faultRows == 0):
			t.Fatalf("%s, %q: faults %v, but the oracle accepts it: %v", f.Name, object, l.faults, ok)
		case ok:
			checkKept(t, f.Name, object, l, found)
		}
	}
}

func checkKept(t *testing.T, name string, object []byte, l *loader, want []rows.Row) {
	t.Helper()
	must.Equal(t, len(want), len(l.ArrivalNS), "%s, %q: rows", name, object)
	for i, r := range want {
		timeNS := int64(agents.NoTime)
		if r.Seen.Has(rows.TimestampField) {
			timeNS = r.TimeNS
		}
		got := l.verbatims.row(i)
		if l.ArrivalNS[i] != timeNS || l.InputTokens[i] != r.InputTokens || l.OutputTokens[i] != r.OutputTokens || got.Kind != r.Verbatim.Kind || string(got.Content) != string(r.Verbatim.Content) || l.Endpoint != r.Endpoint {
			t.Fatalf("%s, %q: row %d at %d, %d → %d tokens for %q, %s; want %+v", name, object, i, l.ArrivalNS[i], l.InputTokens[i], l.OutputTokens[i], l.Endpoint, got.Content, r)
		}
		if r.Seen.Has(rows.SessionField) && string(r.SessionName) != l.sessionNames[l.Session[i]] && r.SessionName != nil {
			t.Fatalf("%s, %q: row %d is of session %q; want %q", name, object, i, l.sessionNames[l.Session[i]], r.SessionName)
		}
	}
}

// itemSeeds has good and bad objects of every format.
func itemSeeds() []string {
	seeds := append(strings.Split(rawFile+batchFile+captureFile()+graphFile, "\n"),
		`{"session_id":"a","payloads":[{"a":1},{"b":[2]}]}`, `{"session_id":7,"payloads":[{"a":1},{}]}`, `{"payloads":[{"a":1}]}`, `{"payloads":{"a":1}}`,
		`{"session_id":["a"],"payload":[{"a":1}],"timestamp":[1.5]}`, `{"session_id":["a","b"],"payload":[{"a":1}]}`, `{"session_id":"","payload":[ ]}`,
		`{"payload":[{"a":1}],"payloads":null,"session_id":null,"timestamp":[null]}`, `{"payload":[{"a":1},{"a":1,"a":2}]}`, `{"payload":[{}],"payloads":[{}]}`,
		`{}`, `[]`, ` { } `, `{"a":1`, `{"a":1}x`, `{"a":1,"a":2}`, `"{}"`, "", "\u0085{\"a\":1}", "{\"a\":1}\u0085", `{"a":1,"a":2}`,
		`{"url":"\/v1","body":{"a":1}}`, `{"url":"/v1","body":{"a":1},"method":"get"}`, `{"url":"/v1","body":{"a":1},"custom_id":7}`, `{"url":7,"body":{"a":1}}`,
	)
	good := strings.TrimSpace(captureRow("2022-02-14T17:25:07Z", "JSON", `{"a":1}`, `{"usage":{"prompt_tokens":-5,"completion_tokens":"6"}}`))
	for _, change := range [][2]string{{"", ""}, {"JSON", "CSV"}, {"JSON", "BASE64"}, {"endpointInput", "x"}, {"endpointOutput", "x"}, {"2022", "2O22"}, {`"INPUT"`, "7"}, {`{\"a\":1}`, "7"}, {`:1}`, ":1"}, {"-5", "05"}} {
		seeds = append(seeds, strings.Replace(good, change[0], change[1], 1))
	}
	return seeds
}

func TestItemsMatchOracle(t *testing.T) {
	for _, s := range itemSeeds() {
		checkItems(t, []byte(s))
	}
}

func FuzzItems(f *testing.F) {
	for _, s := range itemSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, object []byte) { checkItems(t, object) })
}
