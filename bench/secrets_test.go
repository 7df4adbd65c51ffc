package bench

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// parrot is a server that repeats a key in every field that it controls, another one in each answer.
func parrot(key string) http.HandlerFunc {
	var turns atomic.Int64
	quoted := func(text string) string { b, _ := json.Marshal(text); return string(b) }
	slashes := func(text string) string { return strings.ReplaceAll(quoted(text), "/", `\/`) }
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Echo", key)
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprintf(w, `{"data":[{"id":%s}]}`, quoted("m-"+key))
			return
		case "/metrics":
			fmt.Fprintf(w, "vllm:num_requests_running{model_name=%s,engine=\"0\"} 1\n%s\n", quoted(key), map[bool]string{true: key + " {"}[turns.Load()%2 == 1])
			return
		case "/tokenize", "/reset_prefix_cache", "/flush_cache":
			w.WriteHeader(404)
			fmt.Fprint(w, key, r.RequestURI)
			return
		}
		turn := turns.Add(1)
		if turn%3 == 0 {
			w.Header().Set("Target-Pod", "pod-"+key)
		}
		switch turn % 9 {
		case 0:
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"error":{"message":%s}}`, slashes("Incorrect API key provided: "+key))
		case 1:
			w.WriteHeader(502)
			fmt.Fprint(w, strings.Repeat("x", 500), key, strings.Repeat(key, 16<<10/len(key)+1))
		case 2:
			fmt.Fprintf(w, "data: {\"error\":{\"message\":%s}}\n\n", slashes(strings.Repeat("e", 505)+key))
		case 3:
			fmt.Fprintf(w, "data: {\"choices\":%s}\n\n", key)
		case 4:
			w.WriteHeader(400)
			fmt.Fprint(w, "no user ", base64.StdEncoding.EncodeToString([]byte("anna:"+key)), " or ", base64.RawURLEncoding.EncodeToString([]byte(key)), ": ")
			fmt.Fprint(w, "cannot route ", r.RequestURI, " for ", r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"))
		default:
			usage := `"usage":{"prompt_tokens":300,"completion_tokens":1}`
			fmt.Fprintf(w, "data: {\"id\":%[1]s,\"model\":%[1]s,\"nvext\":{\"worker_id\":%[1]s},\"choices\":[{\"text\":%[1]s,\"finish_reason\":%[1]s}],%[2]s}\n\ndata: [DONE]\n\n",
				slashes(key), usage)
		}
	}
}

// TestSecretsStayInside: a key that a server repeats wherever it can is in no file, on no terminal, in no report and in
// no export.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	const letters = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789/+=-_.'\"^$*()[]{}|?~"
	rng := rand.New(rand.NewPCG(7, 8))
	load := generate(t, "--rows", "90", "--rate", "300", "--input-tokens", "300", "--output-tokens", "1")
	for _, length := range []int{5, 51} {
		key := "Q"
		for len(key) < length-1 {
			key += string(letters[rng.IntN(len(letters))])
		}
		key += "Q"
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			url := serve(t, parrot(key))
			file := newFile(t, "key", key)
			said := ""
			for _, flags := range [][]string{
				{"--api-key-file", file, "--no-probe", "--cold", "off", "--scrape", "auto", "--scrape-url", url + "/metrics"}, {"--api-key-file", file, "--cold", "off"},
				{"--header", "X-Api-Key: " + key, "--no-probe", "--model", "m"}, {"--api-key-file", file, "--endpoint", "/v1/completions?key=" + strings.NewReplacer("+", "%2B", "?", "%3F", "#", "%23").Replace(key), "--no-probe"},
			} {
				r := startReplay(t, with(flags, "--trace", load, "--url", url, "--json", "--export", "vllm", "--export", "aiperf")...)
				r.wait(t)
				p := start(t, nil, "report", r.dir, "--html", filepath.Join(r.dir, "page.html"))
				p.wait(t)
				said += p.stdout.String() + p.stderr.String() + r.told(t)
			}
			if !strings.Contains(said, "***") || !strings.Contains(said, "stream_error") || !strings.Contains(said, "pod-***") {
				t.Fatalf("the server repeated nothing:\n%.3000s", said)
			}
			coded := base64.RawStdEncoding.EncodeToString([]byte("anna:" + key))[8:] // behind what the user's name decides
			for i := 0; i+9 < len(coded) && len(key) >= 9; i++ {
				if part := coded[i : i+9]; strings.Contains(said, part) || strings.Contains(said, strings.NewReplacer("+", "-", "/", "_").Replace(part)) {
					t.Fatalf("%q of base64 of %q is there", part, key)
				}
			}
			for i := 0; i == 0 || i+8 <= len(key); i++ {
				part := key[i:min(i+8, len(key))]
				for _, form := range []string{part, strings.ReplaceAll(part, `"`, `\"`)} {
					if at := strings.Index(said, form); at >= 0 {
						t.Fatalf("%q of %q is in …%s…", form, key, said[max(0, at-300):min(len(said), at+100)])
					}
				}
			}
		})
	}
}
