package mockllm

import (
	"bytes"
	"errors"
	"slices"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

var errGone = errors.New("the client is gone")

// commit commits the fault, at its moment. over = true ends the reply.
func (d *driver) commit() (how ending, over bool) {
	if d.phase == phaseBody {
		return d.commitBody()
	}
	var err error
	switch d.fault.Kind {
	case fault.ResetAfter:
		err = d.writeHead()
		d.c.reset()
		over = true
	case fault.Truncate:
		err = d.writeHead()
		over = true
	case fault.Stall:
		if err = d.writeHead(); err == nil {
			<-d.c.wake
			return endGone, true
		}
	case fault.BadJSON:
		err = d.writeEvent([]byte(d.proto.broken+d.srv.eol+d.srv.eol), false)
	case fault.BadChunk:
		if err = d.writeHead(); err == nil {
			err = d.write([]byte("zz\r\ndata: nonsense\n\n\r\n"))
		}
		over = true
	case fault.ErrorEvent:
		d.noFinish = true
		d.phase = phaseTail
		err = d.writeEvent(d.appendFailure(nil), false)
	case fault.BigEvent:
		event := d.appendEvent(nil, d.srv.clock.now())
		err = d.writeEvent(pad(event, d.fault.N), d.phase == phaseEnd)
	}
	if err != nil {
		return endGone, true
	}
	return endFault, over
}

// commitBody is commit for an answer that is not streamed: half of it comes.
func (d *driver) commitBody() (how ending, over bool) {
	kind := d.fault.Kind
	whole := d.compose()
	switch kind {
	case fault.BigEvent:
		if d.write(whole) != nil {
			return endGone, true
		}
		return endDone, true
	case fault.ErrorEvent, fault.BadJSON, fault.BadChunk: // the head is right, the body is not
		_, body, _ := bytes.Cut(whole, []byte("\r\n\r\n"))
		clear(body[len(body)/2:])
	default:
		head, _, _ := bytes.Cut(whole, []byte("\r\n\r\n"))
		whole = whole[:(len(head)+len(whole))/2]
	}
	if d.write(whole) != nil {
		return endGone, true
	}
	switch kind {
	case fault.ResetAfter:
		d.c.reset()
	case fault.Stall:
		<-d.c.wake
		return endGone, true
	}
	return endFault, true
}

// writeHead sends the head, if it was not sent yet.
func (d *driver) writeHead() error {
	if d.headSent {
		return nil
	}
	d.headSent = true
	return d.write(d.appendHead(nil, 0))
}

// writeEvent sends an event, framed.
func (d *driver) writeEvent(event []byte, last bool) error {
	if d.compress {
		event = d.deflate(event, last)
	}
	return d.write(d.frame(nil, event, last))
}

// pad puts n bytes into the first object of an event.
func pad(event []byte, n int) []byte {
	before, after, ok := bytes.Cut(event, []byte("{"))
	if !ok {
		return event
	}
	member := append(bytes.Repeat([]byte{'x'}, n), `",`...)
	return slices.Concat(before, []byte(`{"padding":"`), member, after)
}

// appendFailure appends everything from an error in a running stream to the stream's end.
func (r *reply) appendFailure(dst []byte) []byte {
	e := r.proto.failure
	if e.data == nil {
		e.data = template{{text: string(r.proto.refusal(&requestError{500, kindInjected, injectedError}).body)}}
	}
	if dst = r.append(dst, &e); r.proto.done {
		dst = r.appendDone(dst)
	}
	return dst
}

// injectedError is the message of an error-event.
const injectedError = "injected fault: error-event"
