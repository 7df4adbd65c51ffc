package mockllm

import "strconv"

// openData begins an event without a name.
func (r *reply) openData(dst []byte) []byte {
	return append(r.openComment(dst), "data: "...)
}

// openNamed begins an event with a name.
func (r *reply) openNamed(dst []byte, name string) []byte {
	dst = append(r.openComment(dst), "event: "...)
	dst = append(dst, name...)
	dst = append(dst, r.srv.eol...)
	return append(dst, "data: "...)
}

// openComment appends the comment before an event, where there is to be one.
func (r *reply) openComment(dst []byte) []byte {
	if r.cfg.Comments {
		dst = append(dst, ": ping"...)
		dst = r.endEvent(dst)
	}
	return dst
}

// endEvent ends an event's last line.
func (r *reply) endEvent(dst []byte) []byte {
	dst = append(dst, r.srv.eol...)
	return append(dst, r.srv.eol...)
}

// closeEvent ends the object of an event, and the event.
func (r *reply) closeEvent(dst []byte, now int64) []byte {
	return r.endEvent(r.closeObject(dst, now))
}

// closeObject ends an object with the fields that every one has.
func (r *reply) closeObject(dst []byte, now int64) []byte {
	if r.cfg.Stamp {
		dst = append(dst, `,"sent_ns":`...)
		dst = strconv.AppendInt(dst, now, 10)
	}
	dst = append(dst, r.srv.bodyFields...)
	return append(dst, '}')
}

// appendDone appends the event with which most protocols end a stream.
func (r *reply) appendDone(dst []byte) []byte {
	return r.endEvent(append(dst, "data: [DONE]"...))
}

// appendInt appends a member of an object: what comes before the number, and the number.
func appendInt[T int | int64](dst []byte, before string, v T) []byte {
	return strconv.AppendInt(append(dst, before...), int64(v), 10)
}
