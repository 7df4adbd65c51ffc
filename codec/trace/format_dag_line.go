package trace

import (
	"cmp"
	"fmt"
)

// readDAGLine reads a conversation of dag_jsonl.
func readDAGLine(text []byte) (*dagConversation, error) {
	all, err := membersOf(text)
	if err != nil {
		return nil, err
	}
	c := &dagConversation{}
	if c.name, err = nameOf(all, "session_id", "it names the conversation"); err != nil {
		return nil, err
	}
	if firstOf(all, "orchestrator", "rounds") != nil {
		return nil, &rowError{"an orchestrator, which sends nothing itself", "give its conversations turns of their own: rounds are not read"}
	}
	c.alone = string(valueOf(all, "context_mode")) == `"message_array_with_responses"`
	if c.first, err = namesIn(all, "pre_session_spawns"); err != nil {
		return nil, err
	}
	err = listIn(all, "turns", func(at int, object []byte) error {
		turn, err := readDAGTurn(object, at)
		c.turns = append(c.turns, turn)
		return err
	})
	if err == nil && len(c.turns) == 0 {
		err = &rowError{"missing turns", "they are the requests of the conversation"}
	}
	return c, err
}

// readDAGTurn reads a turn. At is its place.
func readDAGTurn(object []byte, at int) (turn dagTurn, err error) {
	if turn.object, err = membersOf(object); err != nil {
		return turn, err
	}
	r := row{}
	if messages := valueOf(turn.object, "messages"); messages == nil {
		return turn, &rowError{"missing messages", "they are what is sent"}
	} else if err = r.setVerbatim(messagesField, "messages", messages); err != nil {
		return turn, err
	}
	turn.messages = r.verbatim.Content
	if turn.delayNS, err = spanOf(turn.object, "delay", 6); err != nil {
		return turn, err
	}
	turn.delayNS = max(0, turn.delayNS)
	waits := 0
	err = eachName(turn.object, "forks", func(name string, more []member) error {
		if more != nil {
			if name, err = nameOf(more, "child", "it names the conversation that goes on"); err != nil {
				return err
			}
		}
		if string(valueOf(more, "background")) != "true" {
			waits++
		}
		turn.forks = append(turn.forks, name)
		return nil
	})
	if err != nil {
		return turn, err
	}
	turn.parallel = waits == 0
	return turn, eachName(turn.object, "spawns", func(name string, more []member) error {
		spawn := dagSpawn{[]string{name}, at + 1}
		if more != nil {
			if spawn.children, err = namesIn(more, "children"); err != nil {
				return err
			}
			joinAt, err := countOf(more, "join_at", maxTokens)
			if err != nil {
				return err
			}
			if joinAt != noValue {
				spawn.joinAt = int(joinAt)
			}
		}
		turn.spawns = append(turn.spawns, spawn)
		return nil
	})
}

// eachName calls each with the strings of a list, or with the members of what is an object in it.
func eachName(all []member, key string, each func(name string, more []member) error) error {
	list := valueOf(all, key)
	if list == nil {
		return nil
	}
	if list[0] != '[' {
		return &rowError{fmt.Sprintf("%s is %s, not a list", key, clip(list)), `write it as ["…",…]`}
	}
	s := scan(list)
	return s.list(func(i int, value []byte) error {
		if value[0] == '{' {
			more, err := membersOf(value)
			if err == nil {
				err = each("", append([]member{}, more...))
			}
			return inside(fmt.Sprintf("%s[%d]", key, i), err)
		}
		name, err := nameOf([]member{{key, value}}, key, "it names a conversation")
		if err != nil {
			return err
		}
		return each(name, nil)
	})
}

// namesIn is the strings of the list under a key.
func namesIn(all []member, key string) (names []string, err error) {
	err = eachName(all, key, func(name string, more []member) error {
		if more != nil {
			return &rowError{"an object, not a string", `write it as "…"`}
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

// link checks what a conversation leads to.
func (c *dagConversation) link(known map[string]*dagConversation) error {
	meet := func(place string, fork bool, names ...string) error {
		for _, name := range names {
			child := known[name]
			switch {
			case child == nil:
				return &rowError{place + ": no line has the session_id " + quote([]byte(name)), "add the conversation, or leave it out here"}
			case fork && child.forked:
				return &rowError{place + ": " + quote([]byte(name)) + " is forked twice", "what is said before it must be one thing"}
			}
			child.forked, child.named = child.forked || fork, true
		}
		return nil
	}
	err := meet("pre_session_spawns", false, c.first...)
	for at, turn := range c.turns {
		place := fmt.Sprintf("turns[%d]: ", at)
		if len(turn.forks) > 0 && !turn.parallel && at < len(c.turns)-1 {
			err = cmp.Or[error](err, &rowError{place + "forks end the conversation, but turns follow", `write {"child":"…","background":true}`})
		}
		err = cmp.Or(err, meet(place+"forks", true, turn.forks...))
		for _, spawn := range turn.spawns {
			if last := len(c.turns) - 1; spawn.joinAt <= at || spawn.joinAt > max(last, at+1) {
				err = cmp.Or[error](err, &rowError{fmt.Sprintf("%sjoin_at is %d", place, spawn.joinAt), fmt.Sprintf("it must be a later turn, the last is %d", last)})
			}
			err = cmp.Or(err, meet(place+"spawns", false, spawn.children...))
		}
	}
	return err
}
