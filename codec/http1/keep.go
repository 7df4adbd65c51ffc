package http1

import "strings"

// keptHeader is a header whose value outlives the bytes it came in.
type keptHeader struct {
	lower string
	value []byte
	set   bool
}

func (k *keptHeader) clear() { k.value, k.set = k.value[:0], false }

// Keep makes Kept return the named headers of this response and, over Reset, of later ones. Call it before the first Scan.
func (r *Response) Keep(names ...string) {
	r.kept = r.kept[:0]
	for _, name := range names {
		r.kept = append(r.kept, keptHeader{lower: strings.ToLower(name)})
	}
}

// Kept returns the value of the i-th header named to Keep (the first, where it came twice), valid until Reset; nil if it did
// not come, or was not named.
func (r *Response) Kept(i int) []byte {
	if i >= len(r.kept) || !r.kept[i].set {
		return nil
	}
	return r.kept[i].value
}

func (r *Response) keep(name, value []byte) {
	for i := range r.kept {
		if k := &r.kept[i]; !k.set && equalFold(name, k.lower) {
			k.value, k.set = append(k.value, value...), true
		}
	}
}
