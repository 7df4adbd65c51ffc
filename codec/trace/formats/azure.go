package formats

import (
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// azure is the format of the Azure LLM inference traces of 2023 and 2024:
//
//	TIMESTAMP,ContextTokens,GeneratedTokens
//	2023-11-16 18:17:03.9799600,4808,10
//	2024-05-10 00:00:00.009930+00:00,2162,5
//
// as https://github.com/Azure/AzurePublicDataset describes (AzureLLMInferenceDataset2023.md and 2024.md). There are no
// block ids: every prompt is unique to its row.
func azure() *Format {
	return &Format{
		Name: "azure",
		Layout: rows.Layout{
			CSV:   true,
			Dates: true,
			Names: rows.Names{
				rows.TimestampField: "TIMESTAMP",
				rows.InputField:     "ContextTokens",
				rows.OutputField:    "GeneratedTokens",
			},
			Required: rows.SetOf(rows.TimestampField, rows.InputField, rows.OutputField),
		},
		Unit:  time.Second,
		Write: &Writer{Head: "TIMESTAMP,ContextTokens,GeneratedTokens\n", Append: appendAzure},
	}
}

// appendAzure writes a row. Seven digits of a second are written, or nine where seven would not be exact.
func appendAzure(dst []byte, r *Request) []byte {
	layout := "2006-01-02 15:04:05.0000000"
	if r.TimeNS%100 != 0 {
		layout += "00"
	}
	dst = append(r.instant().AppendFormat(dst, layout), ',')
	dst = appendInt(dst, "", r.InputTokens)
	return appendInt(dst, ",", r.OutputTokens)
}
