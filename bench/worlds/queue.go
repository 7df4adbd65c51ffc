package worlds

// Queue is what waits before the slots of a server. Who came first is served first.
type Queue struct {
	free    []float64 // when each slot becomes free, in ms
	begun   []float64 // when each request was served, in ms
	waits   int       // the first of them that waits
	slow    bool
	growing bool
}

// Rule is what a server does with a request that finds so many others waiting.
type Rule func(queue *Queue, q *Request, waiting int)

// serve lets a request wait for the first free slot and hold it, unless a rule refuses it.
func (queue *Queue) serve(q *Request, rules []Rule) {
	at := 1000 * q.At
	for queue.waits < len(queue.begun) && queue.begun[queue.waits] <= at {
		queue.waits++
	}
	failed := !q.OK
	for _, rule := range rules {
		rule(queue, q, len(queue.begun)-queue.waits)
	}
	if !q.OK && !failed {
		return
	}
	first := 0
	for i, free := range queue.free {
		if free < queue.free[first] {
			first = i
		}
	}
	begin := max(queue.free[first], at)
	q.finish(begin - at)
	queue.begun = append(queue.begun, begin)
	queue.free[first] = at + q.E2E
}

// Refuse lets no more than so many wait.
func Refuse(limit int) Rule {
	return func(_ *Queue, q *Request, waiting int) { q.OK = q.OK && waiting < limit }
}

// Collapse multiplies the times of requests that find from or more waiting, and of all that follow until one finds no
// more than until.
func Collapse(from, until int, factor float64) Rule {
	return func(queue *Queue, q *Request, waiting int) {
		queue.slow = waiting >= from || queue.slow && waiting > until
		if queue.slow {
			q.TTFT *= factor
			q.TPOT *= factor
		}
	}
}

// Grow adds slots once, so many seconds after the first request that found so many waiting. Who waits already keeps
// the slot that it waits for.
func Grow(waiting, slots int, after float64) Rule {
	return func(queue *Queue, q *Request, found int) {
		if found < waiting || queue.growing {
			return
		}
		queue.growing = true
		for range slots {
			queue.free = append(queue.free, 1000*(q.At+after))
		}
	}
}
