package trace

// NoTurn says that no turn comes before.
const NoTurn = -1

// TurnsBefore is for each of the trace's first n requests the one before it in its conversation, the last of those that the trace
// has before it; NoTurn for none. It is nil for a trace without conversations.
func (t *Trace) TurnsBefore(n int) []int32 {
	if t.Parent == nil {
		return nil
	}
	before := make([]int32, n)
	latest := make(map[int64]int32, n) // by chat id
	for i := range before {
		before[i] = NoTurn
		if j, known := latest[t.Parent[i]]; known && t.Parent[i] >= 0 {
			before[i] = j
		}
		latest[t.Chat[i]] = int32(i)
	}
	return before
}
