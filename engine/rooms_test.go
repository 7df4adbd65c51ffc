package engine

import "testing"

func TestRooms(t *testing.T) {
	var r rooms
	r.warm(5000, 2) // 8192 each
	for _, c := range []struct{ n, room int }{{1, 8192}, {8192, 8192}, {0, 1}, {1, 1}, {2, 2}, {3, 4}, {4097, 8192}, {8193, 16384}} {
		if b := r.take(c.n); len(b) != 0 || cap(b) != c.room {
			t.Errorf("room for %d bytes: %d of %d, want %d", c.n, len(b), cap(b), c.room)
		}
	}
	r.put(nil)
	r.put(make([]byte, 3, 100)) // of use for 64
	if b := r.take(65); cap(b) != 128 {
		t.Errorf("room for 65 bytes: %d", cap(b))
	}
	if b := r.take(60); cap(b) != 100 || len(b) != 0 {
		t.Errorf("room for 60 bytes: %d of %d", len(b), cap(b))
	}
	size := 0
	if n := testing.AllocsPerRun(100, func() {
		b, scratch := r.take(3000), r.take(200)
		size += cap(b) + cap(scratch)
		r.put(b)
		r.put(scratch)
	}); n != 0 || size == 0 {
		t.Errorf("%v allocations in the steady state", n)
	}
}
