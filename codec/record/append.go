package record

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the record as one line of JSON, newline included, and returns the extended slice. Keys and their
// order are fixed; durations in ms carry six decimals, so they are exact to the nanosecond. It allocates only when dst
// is too small, and keeps nothing of dst.
func (r *Record) AppendJSON(dst []byte) []byte {
	dst = appendInt(append(dst, `{"row":`...), r.Row)
	dst = appendString(append(dst, `,"request_id":`...), r.RequestID)
	dst = appendInt(append(dst, `,"session":`...), r.Session)
	if r.SessionName != "" {
		dst = appendString(append(dst, `,"session_name":`...), r.SessionName)
	}
	dst = appendInt(append(dst, `,"turn":`...), r.Turn)
	if r.Type != "" {
		dst = appendString(append(dst, `,"type":`...), r.Type)
	}
	dst = appendString(append(dst, `,"target":`...), r.Target)
	dst = appendString(append(dst, `,"endpoint":`...), r.Endpoint)
	if r.Instance != "" {
		dst = appendString(append(dst, `,"instance":`...), r.Instance)
	}
	if r.History != "" {
		dst = appendString(append(dst, `,"history":`...), r.History)
	}
	dst = r.appendInstants(dst)
	dst = appendMS(append(dst, `,"ttft_ms":`...), r.TTFTNS())
	dst = appendMS(append(dst, `,"tpot_ms":`...), r.TPOTNS())
	dst = appendMS(append(dst, `,"e2e_ms":`...), r.E2ENS())
	dst = r.appendTokens(dst)
	dst = appendInt(append(dst, `,"status":`...), r.Status)
	dst = appendString(append(dst, `,"outcome":`...), r.Outcome.String())
	dst = appendString(append(dst, `,"error":`...), r.Error)
	dst = appendInt(append(dst, `,"resent":`...), r.Resent)
	dst = appendInt(append(dst, `,"bytes_sent":`...), r.BytesSent)
	dst = appendInt(append(dst, `,"bytes_received":`...), r.BytesReceived)
	return append(dst, '}', '\n')
}

func (r *Record) appendInstants(dst []byte) []byte {
	dst = appendInt(append(dst, `,"planned_ns":`...), r.PlannedNS)
	dst = appendInt(append(dst, `,"sent_ns":`...), r.SentNS)
	dst = appendWall(append(dst, `,"sent_at":`...), r.SentAt)
	dst = appendInt(append(dst, `,"drift_ns":`...), r.DriftNS())
	dst = appendInt(append(dst, `,"conn_wait_ns":`...), r.ConnWaitNS)
	dst = appendInt(append(dst, `,"written_ns":`...), r.WrittenNS)
	dst = appendInt(append(dst, `,"written_first_bytes":`...), r.WrittenFirstBytes)
	dst = appendInt(append(dst, `,"departed_ns":`...), r.DepartedNS)
	dst = appendInt(append(dst, `,"acked_ns":`...), r.AckedNS)
	dst = appendInt(append(dst, `,"headers_ns":`...), r.HeadersNS)
	dst = appendInt(append(dst, `,"first_token_ns":`...), r.FirstTokenNS)
	dst = appendInt(append(dst, `,"first_text_ns":`...), r.FirstTextNS)
	dst = appendInt(append(dst, `,"last_token_ns":`...), r.LastTokenNS)
	dst = appendInt(append(dst, `,"done_ns":`...), r.DoneNS)
	if r.GatewayNS != None {
		dst = appendInt(append(dst, `,"gateway_ns":`...), r.GatewayNS)
	}
	if r.UpstreamNS != None {
		dst = appendInt(append(dst, `,"upstream_ns":`...), r.UpstreamNS)
	}
	return dst
}

func (r *Record) appendTokens(dst []byte) []byte {
	dst = appendInt(append(dst, `,"recorded_input_tokens":`...), r.InputTokens)
	dst = appendInt(append(dst, `,"prompt_tokens":`...), r.PromptTokens)
	dst = appendInt(append(dst, `,"recorded_output_tokens":`...), r.OutputTokens)
	dst = appendInt(append(dst, `,"completion_tokens":`...), r.CompletionTokens)
	dst = appendString(append(dst, `,"tokens_from":`...), r.TokensFrom.String())
	dst = appendInt(append(dst, `,"chunks":`...), r.Chunks)
	if r.Choices > 1 {
		dst = appendInt(append(dst, `,"choices":`...), r.Choices)
		dst = appendInt(append(dst, `,"decode_ns":`...), r.DecodeNS)
	}
	dst = appendString(append(dst, `,"finish_reason":`...), r.FinishReason)
	dst = appendInt(append(dst, `,"expected_cached_tokens":`...), r.ExpectedCachedTokens)
	return appendInt(append(dst, `,"cached_tokens":`...), r.CachedTokens)
}

func appendInt(dst []byte, v int64) []byte {
	if v == None {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, v, 10)
}

func appendWall(dst []byte, w Wall) []byte {
	if w == None {
		return append(dst, "null"...)
	}
	return time.UnixMicro(int64(w)).UTC().AppendFormat(dst, `"2006-01-02T15:04:05.000000Z"`)
}

// appendMS appends ns as milliseconds with six decimals, by integers only.
func appendMS(dst []byte, ns int64) []byte {
	if ns == None {
		return append(dst, "null"...)
	}
	u := uint64(ns)
	if ns < 0 {
		dst = append(dst, '-')
		u = -u
	}
	dst = strconv.AppendUint(dst, u/1e6, 10)
	dst = append(dst, '.')
	for frac, unit := u%1e6, uint64(1e5); unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+frac/unit%10))
	}
	return dst
}

// appendString appends s quoted, or null when it is "". Bytes that are not UTF-8 become U+FFFD, as in encoding/json.
func appendString(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			dst = appendEscape(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		c, size := utf8.DecodeRuneInString(s[i:])
		if c == utf8.RuneError && size == 1 {
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + 1
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

// appendEscape appends the JSON escape of one ASCII byte.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
}
