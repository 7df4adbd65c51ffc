package wire

import (
	"net"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
)

// TestAcceptedKnowsWhenARequestCame: the instant is that of the first byte since the server's last answer, however late
// the server reads, and no byte behind the first one moves it.
func TestAcceptedKnowsWhenARequestCame(t *testing.T) {
	l := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	far := must.Have(net.Dial("tcp", l.Addr().String()))(t)
	defer far.Close()
	near := must.Have(Stamped(l).Accept())(t).(*Accepted)
	defer near.Close()
	b := make([]byte, 100)
	stamped := 0
	for range 50 {
		before := time.Now().UnixNano()
		must.Have(far.Write(make([]byte, 30)))(t)
		written := time.Now().UnixNano()
		time.Sleep(time.Millisecond) // the server has other work
		must.Have(near.Read(b[:1]))(t)
		first := near.FirstNS()
		must.Have(near.Read(b))(t)
		must.Have(far.Write(make([]byte, 30)))(t)
		must.Have(near.Read(b))(t)
		must.Equal(t, near.FirstNS(), first, "the instant, after more bytes")
		if first != 0 {
			stamped++
			if first < before-ulp || first > written+ulp {
				t.Errorf("came at %d, written from %d to %d", first, before, written)
			}
		}
		must.Have(near.Write(b[:1]))(t)
		must.Equal(t, near.FirstNS(), 0, "the instant, after an answer")
		must.Have(far.Read(b))(t)
		must.Do(t, near.SetReadDeadline(time.Unix(1, 0)))
		_, err := near.Read(b)
		must.Equal(t, err != nil, true, "a read that is called off ends")
		must.Do(t, near.SetReadDeadline(time.Time{}))
		must.Equal(t, near.FirstNS(), 0, "the instant, after a read that is called off")
	}
	if stamped == 0 {
		t.Error("no request bears a stamp")
	}
}
