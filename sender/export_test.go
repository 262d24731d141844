package sender

import "time"

// MinRTT is the least time of a request to the node, as it is known at present.
func (s *Sender) MinRTT(node int32) time.Duration { return s.flow(node).minRTT }

// CanSend is what the accumulator was told last of whether the node could take a request.
func (s *Sender) CanSend(node int32) bool { return s.flow(node).canSend }
