package mockllm

import (
	"net"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
)

// TestArrivalIsTheKernelsWhenThisProcessReadsLate sends bytes, reads them after a pause and expects the moment of
// arrival.
func TestArrivalIsTheKernelsWhenThisProcessReadsLate(t *testing.T) {
	ln := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	client := must.Have(net.Dial("tcp", ln.Addr().String()))(t)
	defer client.Close()
	nc := must.Have(ln.Accept())(t)
	defer nc.Close()
	clock := must.Have(newClock())(t)
	s := stampReader{nc: nc, kernel: newKernelReader(nc.(*net.TCPConn)), clock: &clock}
	if s.kernel == nil {
		t.Skip("this system does not stamp")
	}
	arrive := func() (late bool) {
		before := clock.now()
		must.Have(client.Write([]byte("x")))(t)
		after := clock.now()
		time.Sleep(2 * time.Millisecond) // the process is late; nothing waits for it
		if n, err := s.Read(make([]byte, 8)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		// The stamp is converted from wall-clock time by two readings some 50 ns apart.
		const conversionNS = 2_000
		if s.lastNS < before-conversionNS {
			t.Errorf("arrival %d ns before the write began", before-s.lastNS)
		}
		return s.lastNS > after+int64(time.Millisecond)
	}
	// The kernel begins to stamp some time after the first socket requests it, on a busy machine much later. Until then
	// its stamps are of the read.
	eventually(t, "the kernel stamps", func() bool { return !arrive() })
	const rounds = 20
	late := 0
	for range rounds {
		if arrive() {
			late++
		}
	}
	if late > rounds/2 {
		t.Errorf("%d of %d arrivals have the moment of the read", late, rounds)
	}
}
