package testbroker

import (
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// answerLocked sends resp as the verdict has it. A nil resp is no answer.
func (c *Cluster) answerLocked(k *conn, j *job, resp protocol.Message) {
	v := &j.verdict
	if v.Stall {
		c.emitLocked(Action{Node: k.node.id, Conn: k.id, Kind: Stall})
	}
	if v.Mute {
		k.muted = true
	}
	at := c.now.Add(v.Hold)
	if v.Throttle > 0 {
		setThrottle(resp, v.Throttle)
		if !v.ThrottleOnly {
			k.notBefore = later(k.notBefore, c.now.Add(v.Throttle))
			if !throttledByClient(j.req.API, j.req.Version) {
				at = at.Add(v.Throttle)
			}
		}
	}
	at = later(at, k.answerAt)
	k.answerAt = at
	if v.Drop != DropNot && v.Cut == 0 {
		c.closeAtLocked(k, at, v.Drop)
		return
	}
	if resp == nil {
		k.inFlight--
		return
	}
	if k.muted {
		return
	}
	if r, ok := resp.(*protocol.ProduceResponse); ok && v.Shuffle != nil {
		c.outsideLocked(func() { shuffle(r, v.Shuffle) })
	}
	if v.Edit != nil {
		c.outsideLocked(func() { v.Edit(resp) })
	}
	frame := encodeAnswer(j.req, resp)
	if v.Rewrite != nil {
		c.outsideLocked(func() { frame = v.Rewrite(frame) })
	}
	if v.Cut > 0 {
		frame = frame[:min(v.Cut, len(frame))]
	}
	for v.Trickle > 0 && len(frame) > v.Trickle {
		c.writeAtLocked(k, at, frame[:v.Trickle:v.Trickle], nil)
		frame = frame[v.Trickle:]
		at = at.Add(v.TricklePause)
		k.answerAt = at
	}
	c.writeAtLocked(k, at, frame, j.entry)
	if v.Cut > 0 {
		c.closeAtLocked(k, at, max(v.Drop, DropFIN))
	}
}

// shuffle changes the order of what r names.
func shuffle(r *protocol.ProduceResponse, by func(n int, swap func(i, j int))) {
	by(len(r.Topics), func(i, j int) { r.Topics[i], r.Topics[j] = r.Topics[j], r.Topics[i] })
	for i := range r.Topics {
		p := r.Topics[i].Partitions
		by(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	}
}

func encodeAnswer(req *Request, resp protocol.Message) []byte {
	frame := make([]byte, 4, 128)
	frame = protocol.AppendResponseHeader(frame, req.API, req.Version, req.CorrelationID)
	version := req.Version
	if _, highest := req.API.Versions(); version > highest {
		version = 0 // only ApiVersions is answered at all then, in its first form
	}
	frame = resp.AppendTo(frame, version)
	size := len(frame) - 4
	frame[0], frame[1], frame[2], frame[3] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
	return frame
}

// writeAtLocked writes now or then. An entry says that with this its request is answered.
func (c *Cluster) writeAtLocked(k *conn, at time.Time, b []byte, e *Entry) {
	if k.scheduled > 0 || at.After(c.now) {
		k.scheduled++
		c.due.push(event{at: at, kind: eventWrite, conn: k, bytes: b, entry: e})
		return
	}
	c.writeLocked(k, b, e)
}

func (c *Cluster) writeLocked(k *conn, b []byte, e *Entry) {
	if k.ended || k.gone {
		return
	}
	if e != nil {
		e.Answered = c.now
		k.inFlight--
	}
	c.emitLocked(Action{Node: k.node.id, Conn: k.id, Kind: Write, Bytes: b})
}

func (c *Cluster) closeAtLocked(k *conn, at time.Time, how Drop) {
	if k.scheduled > 0 || at.After(c.now) {
		k.scheduled++
		c.due.push(event{at: at, kind: eventClose, conn: k, how: how})
		return
	}
	c.dropLocked(k, how)
}

// setThrottle puts a throttle time into a response that has one.
func setThrottle(resp protocol.Message, d time.Duration) {
	ms := int32(d / time.Millisecond)
	switch r := resp.(type) {
	case *protocol.ProduceResponse:
		r.ThrottleTimeMs = ms
	case *protocol.FetchResponse:
		r.ThrottleTimeMs = ms
	case *protocol.ListOffsetsResponse:
		r.ThrottleTimeMs = ms
	case *protocol.MetadataResponse:
		r.ThrottleTimeMs = ms
	case *protocol.ApiVersionsResponse:
		r.ThrottleTimeMs = ms
	case *protocol.InitProducerIdResponse:
		r.ThrottleTimeMs = ms
	case *protocol.FindCoordinatorResponse:
		r.ThrottleTimeMs = ms
	}
}

// throttledByClient reports whether it is the client that has to wait after an answer (KIP-219); before that the
// broker let the answer wait.
func throttledByClient(key protocol.APIKey, version int16) bool {
	switch key {
	case protocol.KeyProduce, protocol.KeyMetadata:
		return version >= 6
	case protocol.KeyFetch:
		return version >= 8
	case protocol.KeyListOffsets:
		return version >= 3
	case protocol.KeyAPIVersions, protocol.KeyFindCoordinator:
		return version >= 2
	}
	return version >= 1
}
