package formats

import (
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// burstGPT is the format of the BurstGPT traces:
//
//	Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
//	5,17,3.1,ChatGPT,472,18,490,Conversation log
//
// as https://github.com/HPMLL/BurstGPT describes; older files have neither Session ID nor Elapsed time. Timestamps are
// seconds. A request without response tokens failed when it was recorded. There are no block ids: every prompt is
// unique to its row.
func burstGPT() *Format {
	return &Format{
		Name: "burstgpt",
		Layout: rows.Layout{
			CSV:      true,
			Failures: true,
			Names: rows.Names{
				rows.TimestampField: "Timestamp",
				rows.InputField:     "Request tokens",
				rows.OutputField:    "Response tokens",
				rows.TypeField:      "Log Type",
				rows.SessionField:   "Session ID",
			},
			Required: rows.SetOf(rows.TimestampField, rows.InputField, rows.OutputField),
		},
		Unit: time.Second,
		Write: &Writer{
			Head:   "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
			Append: appendBurstGPT,
		},
	}
}

// appendBurstGPT writes a row, with nothing for what a trace does not have: elapsed time and model.
func appendBurstGPT(dst []byte, r *Request) []byte {
	dst = append(rows.AppendDecimal(dst, r.TimeNS, 9), ',')
	if r.Seen.Has(rows.SessionField) {
		dst = appendInt(dst, "", r.Session)
	}
	dst = appendInt(dst, ",,,", r.InputTokens)
	dst = appendInt(dst, ",", r.OutputTokens)
	total := int64(r.InputTokens) + int64(r.OutputTokens)
	dst = appendInt(dst, ",", total)
	return rows.AppendCell(append(dst, ','), string(r.Type))
}
