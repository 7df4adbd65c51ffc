package main

import "strings"

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
