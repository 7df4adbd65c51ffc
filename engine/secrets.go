package engine

import (
	"strings"

	"github.com/fastreplay/fastreplay/codec/http1"
)

// shortestSecret: shorter values are words such as "true", not credentials.
const shortestSecret = 8

// Secrets are the values of headers that no result may repeat, a bearer key without its scheme.
func Secrets(headers []http1.Header) []string {
	var secrets []string
	for _, h := range headers {
		value := h.Value
		if _, key, ok := strings.Cut(value, " "); ok && strings.EqualFold(h.Name, "Authorization") {
			value = key
		}
		if len(value) >= shortestSecret {
			secrets = append(secrets, value)
		}
	}
	return secrets
}
