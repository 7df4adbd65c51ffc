package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/record"
)

// checkInstance refuses what can name nobody.
func (o *options) checkInstance() error {
	for _, name := range o.instanceHeaders {
		if err := (&http1.Header{Name: name}).Validate(); err != nil {
			return fmt.Errorf("--instance-header %q: %w", name, err)
		}
	}
	if o.pacing.given("instance-field") && slices.Contains(strings.Split(o.instanceField, "."), "") {
		return fmt.Errorf("--instance-field %q: want keys with dots between them, such as meta_info.worker", o.instanceField)
	}
	return nil
}

// instancePath is the field that names who answered, key by key; nil where nobody has said.
func (o *options) instancePath() []string {
	if o.instanceField == "" {
		return nil
	}
	return strings.Split(o.instanceField, ".")
}

// headersNamed are the response headers that may name who answered.
func (o *options) headersNamed() []string {
	if o.instanceField != "" && !o.pacing.given("instance-header") {
		return nil
	}
	return o.instanceHeaders
}

// answerers is whether anybody answered, and said who. The zero value has seen nothing.
type answerers struct{ some, named bool }

func (a *answerers) add(r *record.Record) {
	a.some = a.some || r.Status == 200
	a.named = a.named || r.Instance != ""
}

// notes say that what was asked for by name, who answered, came nowhere.
func (a *answerers) notes(o *options) []string {
	var asked []string
	if o.pacing.given("instance-header") {
		asked = append(asked, "the header "+strings.Join(o.instanceHeaders, " or "))
	}
	if o.pacing.given("instance-field") {
		asked = append(asked, "the field "+o.instanceField)
	}
	if !a.some || a.named || asked == nil {
		return nil
	}
	return []string{fmt.Sprintf("no answer had %s: which instance answered is unknown", strings.Join(asked, " or "))}
}
