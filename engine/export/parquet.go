package export

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/report"
)

// writeParquet writes every record, with the keys of requests.jsonl as columns: integers as int64, sent_at as a timestamp in
// UTC, latencies as doubles in ms. What is absent is null.
func writeParquet(w io.Writer, r *results) error {
	out, err := newParquet(w, recordColumns(), mostGroupRows)
	if err != nil {
		return err
	}
	if _, err = report.EachRecord(r.dir, out.addRecord(r)); err != nil {
		return err
	}
	return out.close()
}

// addRecord adds a record as its line in requests.jsonl has it.
func (p *parquet) addRecord(r *results) func(*record.Record) {
	return func(rec *record.Record) {
		if rec.SentAt == record.None { // of a version whose rows have no dates
			if at, ok := r.wall(rec.SentNS); ok {
				rec.SentAt = record.Wall(at.UnixMicro())
			}
		}
		if rec.Choices < 2 {
			rec.Choices = record.None
		}
		p.add(rec)
	}
}

// recordColumns are the columns of a record, one for each key, and those that follow from others behind the last instant.
func recordColumns() (all []column) {
	of := reflect.TypeFor[record.Record]()
	for i := range of.NumField() {
		name := of.Field(i).Tag.Get("json")
		if name == "-" {
			continue
		}
		c := column{name: name, kind: integer}
		value := func(r *record.Record) reflect.Value { return reflect.ValueOf(r).Elem().Field(i) }
		switch of.Field(i).Type {
		case reflect.TypeFor[record.Wall]():
			c.kind = instant
			fallthrough
		case reflect.TypeFor[int64]():
			c.append = func(dst []byte, r *record.Record) []byte { return appendPlain(dst, value(r).Int()) }
		default:
			c.kind = text
			c.append = func(dst []byte, r *record.Record) []byte { return appendText(dst, fmt.Sprint(value(r))) }
		}
		if all = append(all, c); name == "upstream_ns" {
			all = append(all, derivedColumns()...)
		}
	}
	return all
}

func derivedColumns() []column {
	ms := func(name string, ns func(*record.Record) int64) column {
		return column{name: name, kind: double, append: func(dst []byte, r *record.Record) []byte { return appendMS(dst, ns(r)) }}
	}
	return []column{
		{name: "drift_ns", kind: integer, append: func(dst []byte, r *record.Record) []byte { return appendPlain(dst, r.DriftNS()) }},
		ms("ttft_ms", (*record.Record).TTFTNS), ms("tpot_ms", (*record.Record).TPOTNS), ms("e2e_ms", (*record.Record).E2ENS),
	}
}

// The values of a column as Parquet's PLAIN encoding has them; nothing of an absent one.

func appendPlain(dst []byte, v int64) []byte {
	if v == record.None {
		return dst
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(v))
}

func appendMS(dst []byte, ns int64) []byte {
	if ns == record.None {
		return dst
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(ns)/1e6))
}

func appendText(dst []byte, s string) []byte {
	if s == "" {
		return dst
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
}
