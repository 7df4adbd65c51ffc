package history

import "testing"

func TestBufferPool(t *testing.T) {
	var p bufferPool
	p.warm(5000, 2) // 8192 each
	for _, c := range []struct{ n, room int }{{1, 8192}, {8192, 8192}, {0, 1}, {1, 1}, {2, 2}, {3, 4}, {4097, 8192}, {8193, 16384}} {
		if b := p.get(c.n); len(b) != 0 || cap(b) != c.room {
			t.Errorf("room for %d bytes: %d of %d, want %d", c.n, len(b), cap(b), c.room)
		}
	}
	p.put(nil)
	p.put(make([]byte, 3, 100)) // of use for 64
	if b := p.get(65); cap(b) != 128 {
		t.Errorf("room for 65 bytes: %d", cap(b))
	}
	if b := p.get(60); cap(b) != 100 || len(b) != 0 {
		t.Errorf("room for 60 bytes: %d of %d", len(b), cap(b))
	}
	size := 0
	if n := testing.AllocsPerRun(100, func() {
		b, scratch := p.get(3000), p.get(200)
		size += cap(b) + cap(scratch)
		p.put(b)
		p.put(scratch)
	}); n != 0 || size == 0 {
		t.Errorf("%v allocations in the steady state", n)
	}
}
