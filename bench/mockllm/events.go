package mockllm

// event is something that changes what a later request finds: a prefill's end or a request's.
type event struct {
	at    int64 // ns
	order uint64
	lease *lease
	end   bool // of the request
}

// before orders events by their instants. A prefill goes before an end of the same instant, and otherwise the one that
// was added first.
func (e *event) before(o *event) bool {
	switch {
	case e.at != o.at:
		return e.at < o.at
	case e.end != o.end:
		return o.end
	}
	return e.order < o.order
}

// eventHeap hands out events by their order. It is container/heap without its allocation for each element.
type eventHeap struct {
	list  []event
	added uint64
}

func (h *eventHeap) push(e event) {
	h.added++
	e.order = h.added
	h.list = append(h.list, e)
	i := len(h.list) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h.list[up]) {
			break
		}
		h.list[i] = h.list[up]
		i = up
	}
	h.list[i] = e
}

func (h *eventHeap) pop() event {
	first, last := h.list[0], len(h.list)-1
	e := h.list[last]
	h.list[last] = event{}
	h.list = h.list[:last]
	if last == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h.list[down+1].before(&h.list[down]) {
			down++
		}
		if !h.list[down].before(&e) {
			break
		}
		h.list[i] = h.list[down]
		i = down
	}
	h.list[i] = e
	return first
}
