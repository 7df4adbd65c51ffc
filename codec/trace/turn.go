package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// turn is what someone said as AIPerf's files have it
// (https://github.com/ai-dynamo/aiperf, aiperf/dataset/loader/models.py, SingleTurn). It is sent as AIPerf sends it: one text is
// the content, several texts or anything but text are its parts.
type turn struct {
	object []member
	role   string   // as it stands in JSON, without quotes
	texts  [][]byte // JSON strings
	media  []byte   // parts of the content, one after the other with commas
}

func readTurn(object []byte) (*turn, error) {
	all, err := membersOf(object)
	if err != nil {
		return nil, err
	}
	t := &turn{object: all, role: "user"}
	if role := valueOf(all, "role"); role != nil {
		if err := isString("role", role); err != nil {
			return nil, err
		}
		t.role = string(unquoted(role))
	}
	if t.texts, err = textsIn(all, "text"); err != nil {
		return nil, err
	}
	for _, medium := range []string{"image", "audio", "video"} {
		if err := t.readMedia(medium); err != nil {
			return nil, err
		}
	}
	if len(t.texts) == 0 && len(t.media) == 0 {
		return nil, &rowError{"no text, image, audio or video", "a turn has something to say"}
	}
	return t, nil
}

// saysKeys tells whether keys are those of a turn that says something.
func saysKeys(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return slices.Contains([]string{"text", "image", "audio", "video"}, strings.TrimSuffix(k, "s"))
	})
}

// textsIn is the strings under a name or under its plural, which may group them: ["a","b"] or [{"name":"x","contents":["a","b"]}].
// Empty ones say nothing and are left out.
func textsIn(all []member, name string) (texts [][]byte, err error) {
	one, several := valueOf(all, name), valueOf(all, name+"s")
	take := func(_ int, value []byte) error {
		if err := isString(name, value); err != nil {
			return err
		}
		if len(value) > 2 {
			texts = append(texts, value)
		}
		return nil
	}
	switch {
	case one != nil && several != nil:
		return nil, &rowError{fmt.Sprintf("both %s and %ss", name, name), "keep one of them"}
	case one != nil:
		return texts, take(0, one)
	case several == nil:
		return nil, nil
	case several[0] != '[':
		return nil, &rowError{fmt.Sprintf("%ss is %s, not a list", name, clip(several)), `write it as ["…",…]`}
	}
	s := scanner{b: several}
	err = s.list(func(i int, value []byte) error {
		if value[0] != '{' {
			return take(i, value)
		}
		group, err := membersOf(value)
		if err != nil {
			return err
		}
		contents := valueOf(group, "contents")
		if contents == nil || contents[0] != '[' {
			return &rowError{fmt.Sprintf("%ss[%d] has no list of contents", name, i), `write it as {"name":"…","contents":["…",…]}`}
		}
		if valueOf(group, "uuids") != nil {
			return uuidsError(name + "s")
		}
		in := scanner{b: contents}
		return in.list(take)
	})
	return texts, err
}

func uuidsError(name string) error {
	return &rowError{name + " are named by uuids, which only one server's own cache knows", "give the images themselves"}
}

// readMedia makes parts of the content of what is no text.
func (t *turn) readMedia(medium string) error {
	if valueOf(t.object, medium+"_uuids") != nil {
		return uuidsError(medium + "s")
	}
	all, err := textsIn(t.object, medium)
	for _, value := range all {
		if err == nil {
			err = t.addMedium(medium, value)
		}
	}
	return err
}

func (t *turn) addMedium(medium string, value []byte) error {
	inside := unquoted(value)
	if len(t.media) > 0 {
		t.media = append(t.media, ',')
	}
	if medium == "audio" {
		kind, data, found := bytes.Cut(inside, []byte(","))
		if !found || !slices.Contains([]string{"wav", "mp3"}, strings.ToLower(string(kind))) {
			return &rowError{fmt.Sprintf("audio is %s, not wav,… or mp3,… with the sound in base64", clip(value)), "write the sound into the file: others are not read"}
		}
		t.media = fmt.Appendf(t.media, `{"type":"input_audio","input_audio":{"data":"%s","format":"%s"}}`, data, kind)
		return nil
	}
	if address := appendUnquoted(nil, inside); !bytes.HasPrefix(address, []byte("data:")) && !bytes.Contains(address, []byte("://")) {
		return &rowError{fmt.Sprintf("%s is %s, not a URL", medium, clip(value)), "write it as https://… or data:…;base64,…: other files are not read"}
	}
	t.media = fmt.Appendf(t.media, `{"type":"%s_url","%s_url":{"url":%s}}`, medium, medium, value)
	return nil
}

// plain tells whether the content is one text.
func (t *turn) plain() bool { return len(t.texts) == 1 && len(t.media) == 0 }

// appendMessage appends the turn as a message of a chat, behind others.
func (t *turn) appendMessage(dst []byte) []byte {
	if t.plain() {
		return appendMessage(dst, t.role, t.texts[0])
	}
	parts := []byte{'['}
	for _, text := range t.texts {
		parts = append(append(append(parts, `{"type":"text","text":`...), text...), "},"...)
	}
	if len(t.media) == 0 {
		parts = parts[:len(parts)-1]
	}
	return appendMessage(dst, t.role, append(append(parts, t.media...), ']'))
}

// checkType refuses an object that says that it is of another format.
func checkType(all []member, want string) error {
	if kind := valueOf(all, "type"); kind != nil && string(kind) != `"`+want+`"` {
		return &rowError{fmt.Sprintf("type is %s, not %q", clip(kind), want), "a file has one format"}
	}
	return nil
}
