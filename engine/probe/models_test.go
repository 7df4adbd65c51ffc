package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestModels: what servers list of their models and contexts, and whose fault it is if they do not.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		status         int
		body, name     string
		context        int
		lists          bool
		says, saysNone string
	}{
		{200, `{"data":[{"id":"m","object":"model","max_model_len":4096}]}`, "m", 4096, true, "", ""},
		{200, `{"data":[{"id":"m","max_model_len":null}]}`, "m", 0, true, "", ""},
		{200, `{"data":[{"id":"m","max_model_len":4096},{"id":"lora","parent":"m","max_model_len":null}]}`, "lora", 4096, true, "", ""},
		{200, `{"data":[{"id":"m","parent":"n"},{"id":"n","parent":"n"}]}`, "m", 0, true, "", ""},
		{200, `{"data":[{"id":"a","parent":"b"},{"id":"b","parent":"a"}]}`, "a", 0, true, "", ""},
		{200, `{"data":[{"id":"m","max_context_length":7}]}`, "m", 7, true, "", ""},
		{200, `{"data":[{"id":"m","context_length":8}]}`, "m", 8, true, "", ""},
		{200, `{"data":[{"id":"m","context_window":9}]}`, "other", 0, false, "", ""},
		{200, `{"data":[{"id":"openai/*"}]}`, "openai/x", 0, true, "", ""},
		{200, `{"data":[{"id":"m","max_model_len":"4k","parent":{},"context_length":1e99,"context_window":-3}]}`, "m", 0, true, "", ""},
		{200, `{"data":[]}`, "m", 0, false, "give it with --model", "--api-key"},
		{404, `nothing here`, "m", 0, false, "HTTP 404", "--api-key"},
		{401, `{"error":"no key"}`, "m", 0, false, "HTTP 401: credentials missing or refused, give a key with --api-key-file, --api-key", "--model"},
		{403, `{"error":"no"}`, "m", 0, false, "--api-key-file", "--model"},
	} {
		b := proberOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		models, err := b.Models(context.Background(), &b.Targets[0])
		if said := fmt.Sprint(err); (c.says == "") != (err == nil) || !strings.Contains(said, c.says) || c.saysNone != "" && strings.Contains(said, c.saysNone) {
			t.Errorf("%s: error %v, want %q in it and %q not", c.body, err, c.says, c.saysNone)
		}
		if got := models.Context(c.name); got != c.context || models.Lists(c.name) != c.lists {
			t.Errorf("%s: context of %q is %d, listed: %v; want %d, %v", c.body, c.name, got, models.Lists(c.name), c.context, c.lists)
		}
	}
}
