package trace

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// The root of a row's conversation while it is being looked for.
const (
	rootUnknown = -1 - iota
	rootOnPath  // the row is on the chain being followed
)

// resolveSessions follows the parents of every row and returns the chat id of its conversation's first request. A row
// whose parent is not in the file is a first request, and so is one below rows that are their own ancestors. Those
// become faults.
func (l *loader) resolveSessions() []int64 {
	rowOf := l.rowsByChat()
	roots := slices.Repeat([]int64{rootUnknown}, len(l.Chat))
	var path []int32
	for i := range roots {
		at := int32(i)
		for path = path[:0]; roots[at] == rootUnknown; {
			roots[at] = rootOnPath
			path = append(path, at)
			parent, known := rowOf[l.Parent[at]]
			if known && l.Parent[at] != rows.NoParent {
				at = parent
			} else {
				roots[at] = l.Chat[at]
			}
		}
		if roots[at] == rootOnPath {
			from := slices.Index(path, at)
			for _, row := range path[from:] {
				roots[row] = l.Chat[row]
				l.faultIn(row, fmt.Sprintf("chat_id %d is its own ancestor", l.Chat[row]),
					"parent_chat_id must lead to a conversation's first request, which has -1")
			}
			path = path[:from]
		}
		for _, row := range slices.Backward(path) {
			if roots[row] != rootOnPath {
				continue // it is the first request
			}
			roots[row] = roots[at]
			if l.unusable[at] {
				roots[row] = l.Chat[row]
			}
			at = row
		}
	}
	return roots
}

// rowsByChat finds the row of a chat id, the first where several have it.
func (l *loader) rowsByChat() map[int64]int32 {
	rowOf := make(map[int64]int32, len(l.Chat))
	for i, chat := range l.Chat {
		_, taken := rowOf[chat]
		if taken {
			l.Lint.SameChat++
			continue
		}
		rowOf[chat] = int32(i)
	}
	return rowOf
}

// Conversation is the name or the number of request i's conversation; false where it has none.
func (t *Trace) Conversation(i int) (string, bool) {
	if t.Session == nil || t.Session[i] < 0 {
		return "", false
	}
	name := t.SessionName(i)
	if name != "" {
		return name, true
	}
	return strconv.FormatInt(t.Session[i], 10), true
}

// linkSessions fills in chat ids, parents and turns for named conversations, in order. A row's chat id is its place in
// the file, its parent the row before in its conversation.
func (l *loader) linkSessions(order []int32) {
	n := len(l.Session)
	l.Chat = make([]int64, n)
	l.Parent = make([]int64, n)
	l.Turn = make([]int32, n)
	latest := make(map[int64]int32)
	for _, i := range order {
		l.Chat[i] = int64(l.Row[i])
		l.Parent[i] = rows.NoParent
		l.Turn[i] = 1
		session := l.Session[i]
		if session < 0 {
			continue
		}
		before, ok := latest[session]
		if ok {
			l.Parent[i] = l.Chat[before]
			l.Turn[i] = l.Turn[before] + 1
		}
		latest[session] = i
	}
}
