package setup

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine/redact"
)

// secretHeaders are the user's headers and the bearer key. Their values never reach a result or the terminal.
func (o *Options) secretHeaders() ([]http1.Header, error) {
	var headers []http1.Header
	const own = " host content-length content-type transfer-encoding connection x-request-id accept user-agent "
	for _, text := range o.Headers {
		name, value, _ := strings.Cut(text, ":")
		h := http1.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
		if err := h.Validate(); err != nil {
			return nil, fmt.Errorf("--header %s: %w", h.Name, err)
		}
		if strings.Contains(own, " "+strings.ToLower(h.Name)+" ") {
			return nil, fmt.Errorf("--header %s: fastreplay sets this header itself", h.Name)
		}
		headers = append(headers, h)
	}
	h, err := o.keyHeader()
	authorized := hasHeader(headers, "Authorization") || hasHeader(headers, "x-api-key")
	if err != nil || h.Value == "" || authorized {
		return headers, err
	}
	if err := h.Validate(); err != nil {
		return nil, fmt.Errorf("the API key has a character that no header may carry")
	}
	return append(headers, h), nil
}

// keyHeader carries the key: one from a flag as a bearer token, one from the environment as its owner wants it.
func (o *Options) keyHeader() (http1.Header, error) {
	bearer := http1.Header{Name: "Authorization"}
	key := o.Key
	var err error
	if key == "" {
		key, err = ReadKey(o.APIKeyFile)
	}
	if err != nil {
		return bearer, err
	}
	switch {
	case key != "":
		bearer.Value = "Bearer " + key
	case len(o.URLs) > 0 && !o.Again.Strangers: // the embedded mock needs none
		_, bearer = o.environmentKey()
	}
	return bearer, nil
}

// environmentKey returns the header that carries the key of the environment, and the name of its variable; "" if there
// is none.
func (o *Options) environmentKey() (name string, h http1.Header) {
	own := o.traits.Key
	if key := strings.TrimSpace(os.Getenv(own.Env)); key != "" {
		return own.Env, http1.Header{Name: own.Header, Value: key}
	}
	if key := strings.TrimSpace(os.Getenv(openAIKey)); key != "" {
		return openAIKey, http1.Header{Name: "Authorization", Value: "Bearer " + key}
	}
	return "", h
}

// openAIKey is the variable of the environment that has the key, if an API has none of its own.
const openAIKey = "OPENAI_API_KEY"

// hasHeader reports whether a header is among others, in any case.
func hasHeader(headers []http1.Header, name string) bool {
	return slices.ContainsFunc(headers, func(h http1.Header) bool { return strings.EqualFold(h.Name, name) })
}

// ReadKey returns the key in the file of --api-key-file; "" where none is given.
func ReadKey(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--api-key-file: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("--api-key-file %s: the file is empty", file)
	}
	return key, nil
}

// Hide masks what is secret in these options where it stands in a text.
func (o *Options) Hide() func(text string) string {
	secrets, _ := o.secretHeaders() // an error of theirs ends the run
	return o.redactor(secrets).Hide
}

// redactor hides headers, URLs' queries, and the extra inputs that are keys by their names, such as LiteLLM's api_key.
func (o *Options) redactor(headers []http1.Header, queries ...string) *redact.Redactor {
	headers = slices.Clone(headers)
	var extra map[string]any
	_ = json.Unmarshal(o.Extra, &extra) // "" is none
	for name, value := range extra {
		if text, ok := value.(string); ok && redact.IsKey(name) {
			headers = append(headers, http1.Header{Name: name, Value: text})
		}
	}
	return redact.NewRedactor(headers, queries...)
}

// check refuses a run of which a header is masked, and not among those that are given.
func (a *Again) check(secrets []http1.Header) error {
	for _, name := range a.Headers {
		if hasHeader(secrets, name) {
			continue
		}
		how := fmt.Sprintf("--header \"%s: …\"", name)
		if strings.EqualFold(name, "Authorization") {
			how = openAIKey + " and --url, or with --api-key-file"
		}
		return fmt.Errorf(
			"--config %s: that run sent the header %s, and no file of results has its value; give it again with %s",
			a.File, name, how,
		)
	}
	return nil
}
