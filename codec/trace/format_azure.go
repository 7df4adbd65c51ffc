package trace

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// azure is the format of the Azure LLM inference traces of 2023 and 2024:
//
//	TIMESTAMP,ContextTokens,GeneratedTokens
//	2023-11-16 18:17:03.9799600,4808,10
//	2024-05-10 00:00:00.009930+00:00,2162,5
//
// as https://github.com/Azure/AzurePublicDataset describes (AzureLLMInferenceDataset2023.md and 2024.md). There are no
// block ids: every prompt is unique to its row.
func azure() *format {
	return &format{
		name:      "azure",
		csv:       true,
		unit:      time.Second,
		dates:     true,
		surely:    true,
		names:     fieldNames{timestampField: "TIMESTAMP", inputField: "ContextTokens", outputField: "GeneratedTokens"},
		required:  setOf(timestampField, inputField, outputField),
		head:      "TIMESTAMP,ContextTokens,GeneratedTokens\n",
		appendRow: appendAzure,
	}
}

// startOfDates is where dates are written from: a Trace does not keep that of its first request.
func startOfDates() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) }

// appendAzure writes a row. Seven digits of a second are written, or nine where seven would not be exact.
func appendAzure(dst []byte, t *Trace, i int) []byte {
	at := startOfDates().Add(time.Duration(t.ArrivalNS[i]))
	layout := "2006-01-02 15:04:05.0000000"
	if t.ArrivalNS[i]%100 != 0 {
		layout += "00"
	}
	dst = append(at.AppendFormat(dst, layout), ',')
	dst = append(strconv.AppendInt(dst, int64(t.InputTokens[i]), 10), ',')
	return strconv.AppendInt(dst, int64(t.OutputTokens[i]), 10)
}

// burstGPT is the format of the BurstGPT traces:
//
//	Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
//	5,17,3.1,ChatGPT,472,18,490,Conversation log
//
// as https://github.com/HPMLL/BurstGPT describes; older files have neither Session ID nor Elapsed time. Timestamps are
// seconds. A request without response tokens failed when it was recorded. There are no block ids: every prompt is
// unique to its row.
func burstGPT() *format {
	return &format{
		name:     "burstgpt",
		csv:      true,
		unit:     time.Second,
		surely:   true,
		failures: true,
		names: fieldNames{timestampField: "Timestamp", inputField: "Request tokens", outputField: "Response tokens",
			typeField: "Log Type", sessionField: "Session ID"},
		required:  setOf(timestampField, inputField, outputField),
		head:      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
		appendRow: appendBurstGPT,
	}
}

// appendBurstGPT writes a row, with nothing for what a Trace does not have: elapsed time and model.
func appendBurstGPT(dst []byte, t *Trace, i int) []byte {
	dst = append(appendDecimal(dst, t.ArrivalNS[i], 9), ',')
	if t.Session != nil && t.Session[i] >= 0 {
		dst = strconv.AppendInt(dst, t.Session[i], 10)
	}
	dst = append(dst, ",,,"...)
	input, output := int64(t.InputTokens[i]), int64(t.OutputTokens[i])
	for _, n := range []int64{input, output, input + output} {
		dst = append(strconv.AppendInt(dst, n, 10), ',')
	}
	if t.Type != nil {
		dst = appendCell(dst, t.Types[t.Type[i]])
	}
	return dst
}

// date decodes a timestamp such as 2023-11-16 18:17:03.9799600 or 2024-05-10T00:00:00.009930+00:00. --fields alone takes a CSV for one of
// Azure, so a number may be the seconds of another format.
func (p *rowParser) date(cell []byte) (err error) {
	p.row.timeNS, err = instantOf(p.format.names[timestampField], cell)
	bad, ok := err.(*rowError)
	if !ok {
		return err
	}
	if _, number := strconv.ParseFloat(string(cell), 64); number == nil {
		bad.fix += ", or give --format burstgpt if it is seconds"
	}
	return bad
}

// instantOf is the ns since 1970 of a date; name is what it is called.
func instantOf(name string, cell []byte) (int64, error) {
	at, ok := parseDate(cell)
	if !ok {
		return 0, &rowError{fmt.Sprintf("%s is %s, not a date", name, quote(cell)),
			"write it as 2023-11-16 18:17:03.9799600, with or without a zone such as +00:00"}
	}
	if at.Unix() < 0 || at.Unix() >= math.MaxInt64/int64(time.Second) {
		return 0, &rowError{fmt.Sprintf("%s %s is out of range", name, quote(cell)), "it must be from 1970 to 2262"}
	}
	return at.UnixNano(), nil
}

// parseDate reads a date as RFC 3339 writes it, or with a space for the T, or without a zone, which means UTC. Digits
// beyond the ns are cut off. It asks [time.Parse] for RFC 3339 alone, which has a fast way for that, and refuses what is
// lenient beyond it: hours of one digit, a comma before the fraction, zones of 60 minutes.
func parseDate(b []byte) (t time.Time, ok bool) {
	date := append(make([]byte, 0, 40), b...)
	n := len(date)
	if n < len("2006-01-02 15:04:05") || date[13] != ':' || n > 19 && date[19] == ',' {
		return t, false
	}
	if date[10] == ' ' {
		date[10] = 'T'
	}
	if sign := date[n-6]; sign == '+' || sign == '-' {
		ok = date[n-2] <= '5'
	} else if ok = true; date[n-1] != 'Z' {
		date = append(date, 'Z')
	}
	t, err := time.Parse(time.RFC3339, string(date))
	return t, ok && err == nil
}
