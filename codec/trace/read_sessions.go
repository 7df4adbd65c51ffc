package trace

import (
	"fmt"
	"strconv"
)

// The root of a row's conversation while it is being looked for.
const (
	rootUnknown = -1 - iota
	rootOnPath  // the row is on the chain being followed
)

// resolveSessions follows the parents of every row and returns the chat id of its conversation's first request. A row
// whose parent is not in the file is a first request. Rows that are their own ancestors become faults.
func (l *loader) resolveSessions() []int64 {
	rowOf := l.rowsByChat()
	roots := make([]int64, len(l.Chat))
	for i := range roots {
		roots[i] = rootUnknown
	}
	var path []int32
	for i := range roots {
		path = l.followParents(int32(i), rowOf, roots, path[:0])
	}
	return roots
}

// rowsByChat finds the row of a chat id, the first where several have it.
func (l *loader) rowsByChat() map[int64]int32 {
	rowOf := make(map[int64]int32, len(l.Chat))
	for i, chat := range l.Chat {
		if _, taken := rowOf[chat]; taken {
			l.Lint.SameChat++
			continue
		}
		rowOf[chat] = int32(i)
	}
	return rowOf
}

// followParents sets the root of row i and of all rows between it and that root. Path is scratch.
func (l *loader) followParents(i int32, rowOf map[int64]int32, roots []int64, path []int32) []int32 {
	for roots[i] == rootUnknown {
		roots[i] = rootOnPath
		path = append(path, i)
		parent, ok := int32(0), false
		if l.Parent[i] != noParent {
			parent, ok = rowOf[l.Parent[i]]
		}
		if !ok {
			roots[i] = l.Chat[i]
			break
		}
		i = parent
	}
	if roots[i] == rootOnPath {
		path = l.breakLoop(i, roots, path)
	}
	// What is left of the path leads to row i, or begins below a loop whose rows are gone. Then its last row is a root.
	for at := len(path) - 1; at >= 0; at-- {
		row := path[at]
		if roots[row] != rootOnPath {
			continue
		}
		if l.unusable[i] {
			roots[row] = l.Chat[row]
		} else {
			roots[row] = roots[i]
		}
		i = row
	}
	return path
}

// breakLoop makes faults of the rows from the path's end back to row i, and cuts them off the path.
func (l *loader) breakLoop(i int32, roots []int64, path []int32) []int32 {
	for at := len(path) - 1; ; at-- {
		row := path[at]
		roots[row] = l.Chat[row]
		l.faultIn(row, fmt.Sprintf("chat_id %d is its own ancestor", l.Chat[row]), "parent_chat_id must lead to a conversation's first request, which has -1")
		if row == i {
			return path[:at]
		}
	}
}

// noSession is the conversation of a row that is part of none: one of its own, by a number that no other has.
func noSession(number int) int64 { return -1 - int64(number) }

// keepSession appends to the columns of named conversations, if there are any.
func (l *loader) keepSession(r *row, number int) {
	if r.seen.has(sessionField) && l.Session == nil {
		l.Session = []int64{}
		for i := range l.ArrivalNS {
			l.Session = append(l.Session, noSession(int(l.Row[i])))
		}
	}
	if l.Session != nil {
		if !r.seen.has(sessionField) {
			r.session = noSession(number)
		} else if r.sessionName != nil && l.sessionNames[r.session] == "" {
			if l.sessionNames == nil {
				l.sessionNames = map[int64]string{}
			}
			l.sessionNames[r.session] = string(r.sessionName)
		}
		l.Session = append(l.Session, r.session)
	}
	if !r.seen.has(delayField) {
		r.delayNS = noDelay
	}
	addTo(&l.DelayNS, r.delayNS, len(l.ArrivalNS), noDelay)
}

// sessionName is the name or the number of request i's conversation; false where it has none.
func (t *Trace) sessionName(i int) (string, bool) {
	if t.Session == nil || t.Session[i] < 0 {
		return "", false
	}
	if name := t.SessionName(i); name != "" {
		return name, true
	}
	return strconv.FormatInt(t.Session[i], 10), true
}

// linkSessions fills in chat ids, parents and turns for named conversations, in order. A row's chat id is its place in
// the file, its parent the row before in its conversation.
func (l *loader) linkSessions(order []int32) {
	n := len(l.Session)
	l.Chat, l.Parent, l.Turn = make([]int64, n), make([]int64, n), make([]int32, n)
	latest := make(map[int64]int32)
	for _, i := range order {
		l.Chat[i], l.Parent[i], l.Turn[i] = int64(l.Row[i]), noParent, 1
		session := l.Session[i]
		if session < 0 {
			continue
		}
		if before, ok := latest[session]; ok {
			l.Parent[i], l.Turn[i] = l.Chat[before], l.Turn[before]+1
		}
		latest[session] = i
	}
}
