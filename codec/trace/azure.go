package trace

import (
	"strconv"
	"time"
)

// azure is the format of the Azure LLM inference traces of 2023 and 2024:
//
//	TIMESTAMP,ContextTokens,GeneratedTokens
//	2023-11-16 18:17:03.9799600,4808,10
//	2024-05-10 00:00:00.009930+00:00,2162,5
//
// as https://github.com/Azure/AzurePublicDataset says (AzureLLMInferenceDataset2023.md and 2024.md). There are no block ids:
// every prompt is unique to its row.
func azure() *format {
	return &format{
		name:        "azure",
		csv:         true,
		unit:        time.Second,
		dates:       true,
		surely:      true,
		blockTokens: noBlocks,
		names:       fieldNames{timestampField: "TIMESTAMP", inputField: "ContextTokens", outputField: "GeneratedTokens"},
		required:    setOf(timestampField, inputField, outputField),
		head:        "TIMESTAMP,ContextTokens,GeneratedTokens\n",
		appendRow:   appendAzure,
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
