package record_test

import (
	"fmt"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
)

// A line of requests.jsonl becomes the record that it was written from.
func ExampleParse() {
	var sent record.Record
	sent.Clear()
	sent.Row, sent.Outcome = 3, record.OK
	sent.PlannedNS, sent.SentNS = 1_000_000, 1_000_450
	sent.FirstTokenNS, sent.LastTokenNS = 26_000_450, 76_000_450
	var read record.Record
	if err := record.Parse(sent.AppendJSON(nil), &read); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("row", read.Row, read.Outcome)
	fmt.Println("drift", time.Duration(read.DriftNS()))
	fmt.Println("TTFT", time.Duration(read.TTFTNS()), "E2E", time.Duration(read.E2ENS()))
	// Output:
	// row 3 ok
	// drift 450ns
	// TTFT 25ms E2E 75ms
}
