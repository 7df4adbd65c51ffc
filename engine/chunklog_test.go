package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

func TestSentIn(t *testing.T) {
	for data, want := range map[string]string{
		`{"choices":[],"sent_ns":4079431566747}`: "4079431566747", `{"sent_ns":0,"choices":[]}`: "0",
		`{"choices":[]}`: "", `{"sent_ns":null}`: "", `{"sent_ns":`: "", `{"sent_ns":12`: "12", "": "",
	} {
		expect.Equal(t, string(sentIn([]byte(data))), want, data)
	}
}

func TestChunkLogHasALineForEachTokenChunk(t *testing.T) {
	var file strings.Builder
	p, rec := newResponse(t, true)
	rec.Row = 7
	p.chunks.log = NewChunkLog(&file)
	p.readNS = 150
	body := `data: {"choices":[{"index":0,"text":"a","finish_reason":null}],"sent_ns":90}` + "\n\n" + events(1, finish, usage(1, 2, 0), done)
	if _, compressed := p.feed([]byte(chunked(body)), 100); compressed != nil {
		t.Fatal("compressed")
	}
	p.chunks.flush()
	p.chunks.flush()
	expect.Equal(t, file.String(), "row,chunk,instant_ns,read_ns,sent_ns\n7,0,100,150,90\n7,1,100,150,\n")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestChunkLogKeepsItsFirstError(t *testing.T) {
	p, _ := newResponse(t, true)
	p.chunks.log = NewChunkLog(full{})
	p.chunks.add(p.rec, 1, p.readNS, nil)
	p.chunks.flush()
	if err := p.chunks.log.Err(); err == nil || err.Error() != "no room" {
		t.Errorf("error %v", err)
	}
}
