package formats

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Writer writes a format, a line a request.
type Writer struct {
	Append  func(dst []byte, r *Request) []byte // appends a line without its end
	Refuse  func(first, r *Request) string      // says what of a request the format has no place for; nil = nothing
	Head    string                              // before the first line
	Tail    string                              // after the last line; "" = there are no commas between lines either
	Graph   bool                                // requests have their Job and their Waits
	Answers bool                                // it has what was recorded of answers, and their ids
	Prepare func(s *Source) []byte              // makes the head of the whole trace; nil = Head is it
}

// Source is a trace that is written.
type Source struct {
	Format          string // in which it was
	BlockTokens     int
	JobsShareBlocks bool
	Head            Head               // of the own format
	Requests        iter.Seq[*Request] // each is valid until the next one
}

// Words are the text that is written into formats of text if the trace has numbers of tokens only.
type Words struct {
	Model string // that bodies ask for
	// Prompt appends request i's prompt of InputTokens tokens, Answer its answer of OutputTokens tokens: the inside of
	// a JSON string. Both are called row by row, while the trace is written.
	Prompt, Answer func(dst []byte, i int) []byte
}

// Request is a request that is written. Its row has in Seen whether it has an instant, a conversation, a delay and a
// chat.
type Request struct {
	rows.Row
	Index  int // in the trace
	Number int // in the file
	Words  *Words

	JobNumber int                 // from 0; of a format with Graph
	JobName   string              // "" = it has none; of a format with Graph
	Waits     []agents.Dependency // on requests by their Index; of a format with Graph
	InGraph   bool                // some requests of the trace have dependencies in the file
}

// conversation is the name or the number of the request's conversation; false where it has none.
func (r *Request) conversation() (string, bool) {
	if r.SessionName != nil {
		return string(r.SessionName), true
	}
	return strconv.FormatInt(r.Session, 10), r.Seen.Has(rows.SessionField)
}

// appendTimestamp appends when a row comes, in ms, and a comma; nothing if no row has an instant. So do the next ones.
func (r *Request) appendTimestamp(dst []byte) []byte {
	if !r.Seen.Has(rows.TimestampField) {
		return dst
	}
	return append(appendMS(dst, `"timestamp":`, r.TimeNS), ',')
}

func (r *Request) appendSession(dst []byte, key string) []byte {
	name, ok := r.conversation()
	if !ok {
		return dst
	}
	dst = appendText(dst, `"`+key+`":`, name)
	return append(dst, ',')
}

// appendTimes appends when a row comes, as a turn of which session and how long after the turn before.
func (r *Request) appendTimes(dst []byte) []byte {
	dst = r.appendTimestamp(dst)
	dst = r.appendSession(dst, "session_id")
	return r.appendDelay(dst)
}

func (r *Request) appendDelay(dst []byte) []byte {
	if !r.Seen.Has(rows.DelayField) {
		return dst
	}
	return append(appendMS(dst, `"delay":`, r.DelayNS), ',')
}

// appendAsked appends what a row asks beside its prompt, each behind a comma.
func (r *Request) appendAsked(dst []byte) []byte {
	if r.OutputTokens > 0 {
		dst = appendInt(dst, `,"output_length":`, r.OutputTokens)
	}
	extra := r.Verbatim.Extra
	if extra != nil {
		dst = concat(dst, `,"extra":`, string(extra))
	}
	return dst
}

// appendRecorded appends what was recorded of the answer, each behind a comma.
func (r *Request) appendRecorded(dst []byte) []byte {
	dst = appendMS(dst, `,"recorded_api_time_ms":`, r.TookNS)
	dst = appendMS(dst, `,"ttft_ms":`, r.TTFTNS)
	if r.CachedTokens >= 0 {
		dst = appendInt(dst, `,"cached_tokens":`, r.CachedTokens)
	}
	return dst
}

// appendIDs writes no key at all for a prompt that shares nothing.
func (r *Request) appendIDs(dst []byte) []byte {
	return appendList(dst, `,"hash_ids":[`, r.IDs)
}

// appendList appends a text and a list behind it that it opens; nothing for an empty one.
func appendList(dst []byte, before string, ids []uint64) []byte {
	if len(ids) == 0 {
		return dst
	}
	for _, id := range ids {
		dst = append(dst, before...)
		dst = strconv.AppendUint(dst, id, 10)
		before = ","
	}
	return append(dst, ']')
}

// appendText appends the one text that the request asks, made of words where the file has none.
func (r *Request) appendText(dst []byte) []byte {
	if r.Verbatim.Kind == rows.VerbatimText {
		return append(dst, r.Verbatim.Content...)
	}
	return r.Words.Prompt(dst, r.Index)
}

// appendAnswer appends the recorded answer to the request, or else a made one.
func (r *Request) appendAnswer(dst []byte) []byte {
	if r.Answer != nil {
		return append(dst, r.Answer...)
	}
	return r.Words.Answer(dst, r.Index)
}

// chatMessage is a message of a chat; text is the inside of a JSON string.
type chatMessage struct {
	role string
	text []byte
}

// chat returns the messages of a request that notPlain has accepted.
func (r *Request) chat() []chatMessage {
	if r.Verbatim.Kind == rows.VerbatimMessages {
		all, _ := plainChat(r.Verbatim.Content)
		return all
	}
	return []chatMessage{{"user", r.appendText(nil)}}
}

// plainChat takes messages apart. It reports false if they are more than texts, or if others than the last are the
// user's. A format of conversations would make a request of each of the user's messages.
func plainChat(messages []byte) (all []chatMessage, ok bool) {
	ok = true
	s := rows.Scan(fmt.Appendf(nil, "[%s]", messages))
	err := s.List(func(_ int, message []byte) error {
		var err error
		o := rows.ObjectOf(message, &err)
		text := o.Value("content")
		known := o.Is("role", "user", "system", "assistant") && len(text) > len(`""`) && text[0] == '"'
		if err != nil || len(o.Members) != 2 || !known {
			ok = false
			return err
		}
		role := string(rows.Unquoted(o.Value("role")))
		all = append(all, chatMessage{role, rows.Unquoted(text)})
		return nil
	})
	for i, m := range all {
		last := i == len(all)-1
		ok = ok && last == (m.role == "user")
	}
	return all, ok && err == nil && len(all) > 0
}

// notText returns what keeps a request out of a format of texts.
func notText(_, r *Request) string {
	switch r.Verbatim.Kind {
	case rows.VerbatimMessages:
		return "is a chat"
	case rows.VerbatimPayload:
		return "is a whole body"
	}
	return ""
}

// notPlain returns what keeps a request out of a format of conversations.
func notPlain(_, r *Request) string {
	if r.Verbatim.Kind != rows.VerbatimMessages {
		return notText(nil, r)
	}
	_, ok := plainChat(r.Verbatim.Content)
	if !ok {
		return "is a chat with more than texts and one question"
	}
	return ""
}

// body is the body of a request: the recorded one, or a chat with what it asks. An extra is merged into it.
func (r *Request) body() []byte {
	l := r.Verbatim
	members := l.Content
	if l.Kind != rows.VerbatimPayload {
		members = r.chatMembers()
	}
	body := fmt.Appendf(nil, "{%s}", members)
	if l.Extra != nil {
		return merged(body, l.Extra)
	}
	return body
}

// chatMembers are the members of the body of a chat.
func (r *Request) chatMembers() []byte {
	dst := appendText(nil, `"model":`, r.Words.Model)
	if r.Verbatim.Kind == rows.VerbatimMessages {
		dst = concat(dst, `,"messages":[`, string(r.Verbatim.Content), "]")
	} else {
		dst = r.appendText(append(dst, `,"messages":[{"role":"user","content":"`...))
		dst = append(dst, `"}]`...)
	}
	if r.OutputTokens > 0 {
		dst = appendInt(dst, `,"max_tokens":`, r.OutputTokens)
	}
	return appendTools(dst, r.Verbatim)
}

// appendTools appends the tools of a chat behind other members, if it has any.
func appendTools(dst []byte, v rows.Verbatim) []byte {
	if v.Tools == nil {
		return dst
	}
	return concat(dst, `,"tools":`, string(v.Tools))
}

// merged is an object with the members of another, which win.
func merged(body, extra []byte) []byte {
	all, _ := rows.MembersOf(body) // both are known to be valid: see notMerged
	more, _ := rows.MembersOf(extra)
	for _, m := range more {
		at := slices.IndexFunc(all, func(known rows.Member) bool {
			return known.Key == m.Key
		})
		if at < 0 {
			all = append(all, m)
		} else {
			all[at] = m
		}
	}
	var members []byte
	for _, m := range all {
		members = appendMember(members, m)
	}
	return fmt.Appendf(nil, "{%s}", members)
}

// appendMember appends a member of an object behind others.
func appendMember(members []byte, m rows.Member) []byte {
	return concat(appendString(comma(members), m.Key), ":", string(m.Value))
}

// notMerged returns what keeps a request from becoming a body.
func notMerged(_, r *Request) string {
	if r.Verbatim.Extra == nil {
		return ""
	}
	_, err := rows.MembersOf(r.Verbatim.Extra)
	if err == nil && r.Verbatim.Kind == rows.VerbatimPayload {
		body := fmt.Appendf(nil, "{%s}", r.Verbatim.Content)
		_, err = rows.MembersOf(body)
	}
	if err != nil {
		return "has an extra that cannot be merged, since " + err.Error()
	}
	return ""
}

// path is where a request goes: one of the paths of OpenAI's APIs where the file does not say it.
func (r *Request) path() string {
	switch {
	case r.Endpoint != "":
		return r.Endpoint
	case r.Verbatim.Kind != rows.VerbatimPayload || r.Verbatim.HasMessages():
		return "/v1/chat/completions"
	}
	return "/v1/completions"
}

// instant is a date for a request: a trace does not keep that of its first one.
func (r *Request) instant() time.Time {
	const since = 1_704_067_200 // 2024-01-01
	return time.Unix(since, r.TimeNS).UTC()
}

// AppendLine appends the line of a request, without its end.
func (f *Format) AppendLine(dst []byte, r *Request) []byte {
	dst = f.Write.Append(dst, r)
	if !f.CSV {
		oneLine(dst)
	}
	return dst
}

// oneLine puts a space for what ends lines between the values of JSON that comes from a document of many lines. Inside
// of values there are none.
func oneLine(text []byte) {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
}

func appendString(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a string has no JSON form: " + err.Error())
	}
	return append(dst, b...)
}

// appendText appends a text as it stands, and a JSON string behind it.
func appendText(dst []byte, before, s string) []byte {
	return appendString(append(dst, before...), s)
}

// appendMS appends a text and ms behind it; nothing for a time below 0, which is none.
func appendMS(dst []byte, before string, ns int64) []byte {
	if ns < 0 {
		return dst
	}
	return rows.AppendDecimal(append(dst, before...), ns, 6)
}

// appendInt appends a text and a number behind it.
func appendInt[N int | int32 | int64](dst []byte, before string, n N) []byte {
	return strconv.AppendInt(append(dst, before...), int64(n), 10)
}

// concat appends texts, one after the other.
func concat(dst []byte, texts ...string) []byte {
	for _, text := range texts {
		dst = append(dst, text...)
	}
	return dst
}

// comma appends a comma behind what is there.
func comma(list []byte) []byte {
	if len(list) == 0 {
		return list
	}
	return append(list, ',')
}
