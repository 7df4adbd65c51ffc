package http1

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// oracle is net/http's reading of the same bytes.
func oracle(in string) (result, error) {
	br := bufio.NewReader(strings.NewReader(in))
	for {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return result{}, err
		}
		if resp.StatusCode < 200 && resp.StatusCode != 101 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		rest, _ := io.ReadAll(br)
		out := result{status: resp.StatusCode, length: resp.ContentLength, headDone: true, done: true, body: string(body), rest: string(rest),
			chunked: len(resp.TransferEncoding) > 0, keepAlive: !resp.Close, kept: resp.Header.Get("X-Kept"),
			gzip: regexp.MustCompile(`^(?i:gzip|x-gzip)$`).MatchString(resp.Header.Get("Content-Encoding"))}
		return out, err
	}
}

// FuzzResponse compares with net/http, and every split with the whole.
func FuzzResponse(f *testing.F) {
	for _, c := range responses {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 2000 {
			return
		}
		var r Response
		r.Keep("X-Kept")
		got := feed(&r, string(in))
		splitsAgree(t, string(in), got)
		want, err := oracle(string(in))
		switch {
		case got.err == nil && err == nil:
			agree(t, in, got, want)
		case got.err == nil:
			t.Fatalf("accepted %q as %+v, net/http says %v", in, got, err)
		case err == nil:
			if !ourStrictness(string(in), got.err) {
				t.Fatalf("refused %q with %v, net/http reads %+v", in, got.err, want)
			}
		}
	})
}

func splitsAgree(t *testing.T, in string, want result) {
	var r Response
	r.Keep("X-Kept")
	for i := range len(in) {
		if got := feed(&r, in[:i], in[i:]); !same(got, want) {
			t.Fatalf("%q split at %d\ngot  %+v\nwant %+v", in, i, got, want)
		}
	}
	bytewise := make([]string, 0, len(in))
	for i := range len(in) {
		bytewise = append(bytewise, in[i:i+1])
	}
	if got := feed(&r, bytewise...); !same(got, want) {
		t.Fatalf("%q byte by byte\ngot  %+v\nwant %+v", in, got, want)
	}
}

// agree compares two readings of a response that both accept.
func agree(t *testing.T, in []byte, got, want result) {
	if got.status == 204 || got.status == 304 { // net/http repeats the announced length of a body that may not come
		want.length, want.chunked = got.length, got.chunked
	}
	if want.keepAlive && !got.keepAlive && (got.length < 0 || bothLengths(string(in))) {
		want.keepAlive = false // net/http closes these connections elsewhere
	}
	if multiple(string(in)) { // it joins or takes the first of repeated headers
		want.gzip = got.gzip
	}
	must.Equal(t, got, want, in)
}

var (
	lengthHeader = regexp.MustCompile(`(?im)^content-length:`)
	codingHeader = regexp.MustCompile(`(?im)^transfer-encoding:`)
	encodedTwice = regexp.MustCompile(`(?is)\ncontent-encoding:.*\ncontent-encoding:`)
	goodStatus   = regexp.MustCompile(`^HTTP/1\.\d [1-9]\d\d( [\t -~\x80-\xff]*)?$`)
	noBody       = regexp.MustCompile(`(?m)^HTTP/1\.\d (1\d\d|204|304)`)
	spacedName   = regexp.MustCompile(`(?m)^[^:\n]* [^:\n]*:`)
	folded       = regexp.MustCompile(`\n[ \t]`)
)

func bothLengths(in string) bool { return lengthHeader.MatchString(in) && codingHeader.MatchString(in) }
func multiple(in string) bool    { return encodedTwice.MatchString(in) }

// oddStatus reports a status line of some head that is not plain HTTP/1.
func oddStatus(in string) bool {
	for line := range strings.SplitSeq(strings.ReplaceAll(in, "\r\n", "\n"), "\n") {
		if strings.HasPrefix(line, "HTTP/") && !goodStatus.MatchString(line) {
			return true
		}
	}
	return false
}

// ourStrictness lists what is refused here and read by net/http.
func ourStrictness(in string, err error) bool {
	switch sentinel(err) {
	case ErrBadHead:
		return folded.MatchString(in) || spacedName.MatchString(in) || oddStatus(in) || strings.Contains(in, " 101") ||
			strings.Contains(in, "HTTP/1.0") && codingHeader.MatchString(in)
	case ErrUnsupported:
		return strings.Contains(err.Error(), "Content-Encoding") || noBody.MatchString(in) || strings.Contains(in, "HTTP/1.0")
	case ErrBadChunk: // lone LFs and spaces in names
		return strings.Contains(err.Error(), "malformed trailer")
	case ErrBadLength: // a bad length that other rules make moot
		return noBody.MatchString(in) || codingHeader.MatchString(in)
	}
	return false
}
