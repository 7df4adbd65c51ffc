package main

import "strings"

// fitTraits leaves out of the work what the API has no words for, and says what cannot be had from it.
func (r *replay) fitTraits() {
	if r.literals.onlyPayloads() {
		return
	}
	switch t := r.o.traits; {
	case !t.Generates:
		silent := *r.trace
		silent.OutputTokens = make([]int32, r.trace.Len())
		r.trace = &silent
		r.work.Trace = r.trace
	case !t.Forces && !r.o.noForceOutput:
		r.note("--api %s cannot have an answer of exactly so many tokens: answers may be shorter than recorded", r.o.api)
	}
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
