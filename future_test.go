package producer_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/testbroker"
	"github.com/kafka-reservoir/producer/protocol"
)

// REC-04: what a future tells before, at and after the end of its record: Wait with a ctx that ends waits no longer than
// that and harms nothing, Done and Wait agree, and both may be used any number of times.
func TestFuture(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Hold(10*time.Second))}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		f := p.Send(t.Context(), text("t", "v"))
		began := time.Now()

		why := errors.New("no patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		m, err := f.Wait(ctx)
		assert.ErrorIs(t, err, why)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, producer.RecordMetadata{Topic: "t", Partition: 0, Offset: -1, KeySize: -1, ValueSize: -1}, m, "nothing is known yet")
		_, err = f.Wait(ctx)
		assert.ErrorIs(t, err, why, "a ctx that has ended already")
		assert.False(t, returned(f.Done()))

		channels := []<-chan struct{}{f.Done(), f.Done()}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				m, err := f.Wait(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, 10*time.Second, time.Since(began))
				assert.Zero(t, m.Offset)
			})
		}
		wg.Wait()
		for _, done := range channels {
			<-done
		}
		assert.True(t, returned(f.Done()))
		again := f // a value
		for _, f := range []producer.Future{f, f, again} {
			m, err := f.Wait(ctx)
			require.NoError(t, err, "a result that is there is told, whatever the ctx")
			assert.Equal(t, "t-0@0", m.String()) // REC-03
			assert.True(t, m.HasOffset())
		}
		end(t, p)
		_, err = f.Wait(t.Context())
		assert.NoError(t, err, "after Close")
	})
}

// The zero Future is of no record: it never blocks, and says so.
func TestZeroFuture(t *testing.T) {
	var f producer.Future
	m, err := f.Wait(t.Context())
	assert.ErrorContains(t, err, "no record")
	assert.Equal(t, producer.RecordMetadata{Partition: -1, Offset: -1, KeySize: -1, ValueSize: -1}, m)
	assert.True(t, returned(f.Done()))
}

// REC-04: a failure is told by every Wait, and by Done no less than a success.
func TestFutureOfAFailure(t *testing.T) {
	inLab(t, testbroker.Config{Fault: on(protocol.KeyProduce, testbroker.Answer(protocol.InvalidRecord))}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		f := p.Send(t.Context(), text("t", "v"))
		<-f.Done()
		for range 3 {
			m, err := f.Wait(t.Context())
			assert.ErrorIs(t, err, producer.InvalidRecord)
			assert.False(t, m.HasOffset())
			assert.Equal(t, producer.RecordMetadata{Topic: "t", Partition: 0, Offset: -1, KeySize: -1, ValueSize: -1}, m)
			assert.False(t, producer.MayHaveBeenWritten(err))
		}
		end(t, p)
	})
}

// REC-03: what a result has of the record: sizes, -1 for null, the time, and -1 for an offset that no broker told.
func TestRecordMetadata(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "broker-time", LogAppendTime: true}, {Name: "t"}}}, func(t *testing.T, l *lab) {
		p, err := producer.New(l.config, producer.Bytes(), producer.Bytes())
		require.NoError(t, err)
		at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		for i, r := range []producer.Record[[]byte, []byte]{
			{Topic: "t", Timestamp: at},
			{Topic: "t", Timestamp: at, Key: []byte{}, Value: []byte("abc")},
			{Topic: "broker-time", Timestamp: at, Key: []byte("ab"), Value: []byte{}},
		} {
			m, err := p.Send(t.Context(), r).Wait(t.Context())
			require.NoError(t, err)
			size := func(b []byte) int {
				if b == nil {
					return -1
				}
				return len(b)
			}
			want := producer.RecordMetadata{Topic: r.Topic, Offset: int64(i % 2), KeySize: size(r.Key), ValueSize: size(r.Value), Timestamp: at}
			if i == 2 {
				want.Timestamp = time.Now() // nothing takes time here
			}
			assert.True(t, want.Timestamp.Equal(m.Timestamp), "%v, not %v", m.Timestamp, want.Timestamp)
			want.Timestamp = m.Timestamp
			assert.Equal(t, want, m)
		}
		end(t, p)

		c := l.config
		c.Acks = producer.AcksNone // S-90
		p, err = producer.New(c, producer.Bytes(), producer.Bytes())
		require.NoError(t, err)
		m, err := p.Send(t.Context(), producer.Record[[]byte, []byte]{Topic: "t", Value: []byte("abc")}).Wait(t.Context())
		require.NoError(t, err)
		assert.False(t, m.HasOffset())
		assert.Equal(t, "t-0@-1", m.String())
		assert.Equal(t, 3, m.ValueSize)
		end(t, p)
		assert.Len(t, l.Cluster().Records("t", 0), 3)
	})
}

// REC-05, S-66: when the broker finds a batch too large, it is sent in parts; futures made before, and Waits that
// were waiting already, end with the part that has their record, each with its own offset.
func TestFuturesOfASplitBatch(t *testing.T) {
	inLab(t, testbroker.Config{Topics: []testbroker.Topic{{Name: "t", MaxMessageBytes: 3000}}}, func(t *testing.T, l *lab) {
		p := l.texts(t, func(c *producer.Config) { c.Linger = time.Second })
		const n = 50
		var futures [n]producer.Future
		var waits [n]<-chan struct{}
		told := newLedger()
		value := strings.Repeat("x", 200)
		for i := range n {
			if i%2 == 0 {
				futures[i] = p.Send(t.Context(), text("t", value))
			} else {
				p.SendFunc(t.Context(), text("t", value), told.callback(i/2))
			}
		}
		var began = time.Now()
		for i := 0; i < n; i += 4 {
			waits[i] = async(func() {
				m, err := futures[i].Wait(t.Context())
				assert.NoError(t, err)
				assert.EqualValues(t, i, m.Offset)
			})
		}
		for i := 2; i < n; i += 4 {
			waits[i] = futures[i].Done()
		}
		synctest.Wait()
		for i := 0; i < n; i += 2 {
			<-waits[i]
			m, err := futures[i].Wait(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, i, m.Offset)
		}
		assert.Less(t, time.Since(began), time.Second, "nobody lingers who is waited for")
		require.NoError(t, p.Flush(t.Context()))
		told.check(t, n/2)
		assert.Empty(t, told.failures())
		assert.Positive(t, p.Metrics().BatchSplit.Total)
		assert.Len(t, l.Cluster().Records("t", 0), n)
		end(t, p)
	})
}

// S-02: the synchronous and the asynchronous way tell the same, once each.
func TestFutureAndCallbackAgree(t *testing.T) {
	inLab(t, testbroker.Config{}, func(t *testing.T, l *lab) {
		p := l.texts(t, nil)
		m, err := p.Send(t.Context(), producer.Record[string, string]{Topic: "t", Key: "key", Value: "value"}).Wait(t.Context())
		require.NoError(t, err)
		told := make(chan producer.RecordMetadata, 2)
		p.SendFunc(t.Context(), producer.Record[string, string]{Topic: "t", Key: "key", Value: "value"}, func(m producer.RecordMetadata, err error) {
			assert.NoError(t, err)
			told <- m
		})
		end(t, p)
		n := <-told
		assert.Empty(t, told, "once")
		assert.EqualValues(t, 0, m.Offset)
		assert.EqualValues(t, 1, n.Offset)
		assert.Equal(t, 3, m.KeySize)
		assert.Equal(t, 5, m.ValueSize)
		n.Offset, n.Timestamp = m.Offset, m.Timestamp
		assert.Equal(t, m, n)
	})
}
