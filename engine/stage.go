package engine

// stage is where https requests lie between their encryption, which happens when they are armed, and the lane's write: a
// ring in memory that the lane's process shares. It belongs to the armer.
type stage struct {
	bytes  []byte
	end    int64 // of what was put last, in an endless ring
	staged []stagedShot
}

// stagedShot is one request's place.
type stagedShot struct {
	request int32
	begin   int64 // in an endless ring
}

// Room for a stage: what is armed at a time, which a burst of long prompts makes large.
const (
	leastStage     = 64 << 20
	stageOfLargest = 64 // times the largest request
)

func stageSize(largest int) int64 { return max(leastStage, stageOfLargest*int64(largest)) }

// fits tells whether there is room for size bytes. needed tells whether the bytes at a place that put has returned for a
// request are still to be written.
func (g *stage) fits(size int64, needed func(request int32, place int64) bool) bool {
	limit := int64(len(g.bytes))
	for len(g.staged) > 0 && !needed(g.staged[0].request, g.staged[0].begin%limit) {
		g.staged = g.staged[1:]
	}
	begin := g.end
	if len(g.staged) > 0 {
		begin = g.staged[0].begin
	}
	return g.next(size)+size-begin <= limit
}

// next is where size bytes go in an endless ring: not across the end of the real one.
func (g *stage) next(size int64) int64 {
	limit := int64(len(g.bytes))
	if over := g.end % limit; over+size > limit {
		return g.end + limit - over
	}
	return g.end
}

// put copies p, for which fits has found room, into the ring and returns where it lies.
func (g *stage) put(request int32, p []byte) (place int64) {
	at := g.next(int64(len(p)))
	place = at % int64(len(g.bytes))
	copy(g.bytes[place:], p)
	g.staged = append(g.staged, stagedShot{request, at})
	g.end = at + int64(len(p))
	return place
}
