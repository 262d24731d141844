package producer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/accumulator"
	"github.com/kafka-reservoir/producer/bufferpool"
	"github.com/kafka-reservoir/producer/internal/metrics"
)

// A topic that metadata forgets is kept by nobody, also not as the one that was sent to last.
func TestForgottenTopicIsKeptByNobody(t *testing.T) {
	e := &engine{
		set: metrics.New(2, time.Second, time.Now()),
		acc: accumulator.New(accumulator.Config{Pool: bufferpool.New(bufferpool.Config{Total: 1 << 20}), Now: time.Now}),
	}
	topic := e.acc.Topic("orders")
	v := &accumulator.View{Topic: topic}
	topic.View.Store(v)
	e.last.Store(v)
	e.forget("invoices")
	require.Same(t, v, e.last.Load())
	require.Same(t, v, topic.View.Load())
	e.forget("orders")
	require.Nil(t, e.last.Load())
	require.Nil(t, topic.View.Load())
}
