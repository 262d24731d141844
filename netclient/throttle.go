package netclient

import "time"

// maxThrottle bounds what a broker can ask for in one answer. Real ones ask for some seconds at most; a
// damaged answer may say weeks. Should a broker mean more, it leaves the request unread for the rest, which
// costs nothing but the time it wanted.
const maxThrottle = time.Minute

// The first versions after whose throttle time a client waits by itself (KIP-219). Before, the broker had
// waited with its answer.
const (
	throttleMetadata    = 6
	throttleAPIVersions = 2
)

// Throttle keeps new requests from a node for d, since a broker asked for it in an answer whose version
// calls for that. A shorter time does not shorten one that is running. Requests that are in flight get as
// much more time: the broker does not read them meanwhile (KAFKA-16083).
func (c *NetworkClient) Throttle(node int32, d time.Duration, now time.Time) {
	n := c.find(node)
	if n == nil || d <= 0 {
		return
	}
	d = min(d, maxThrottle)
	from := now
	if n.isThrottled(now) {
		from = n.throttled
	}
	if until := now.Add(d); until.After(from) {
		n.inFlight.extend(until.Sub(from))
		n.throttled = until
	}
	c.log.Debug("throttled", "node", node, "for", d)
	if c.cfg.Throttled != nil {
		c.cfg.Throttled(node, d)
	}
}
