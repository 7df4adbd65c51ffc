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

// put copies p into the ring and returns where it lies; false if there is no room. needed tells whether the bytes at a
// place that was returned for a request are still to be written.
func (g *stage) put(request int32, p []byte, needed func(request int32, place int64) bool) (place int64, ok bool) {
	limit, size := int64(len(g.bytes)), int64(len(p))
	for len(g.staged) > 0 && !needed(g.staged[0].request, g.staged[0].begin%limit) {
		g.staged = g.staged[1:]
	}
	begin := g.end
	if len(g.staged) > 0 {
		begin = g.staged[0].begin
	}
	at := g.end
	if at%limit+size > limit {
		at += limit - at%limit // not across the ring's end
	}
	if at+size-begin > limit {
		return 0, false
	}
	copy(g.bytes[at%limit:], p)
	g.staged = append(g.staged, stagedShot{request, at})
	g.end = at + size
	return at % limit, true
}
