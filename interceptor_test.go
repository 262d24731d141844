package producer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

type ctxKey string

// spy notes what it is told in a log that it shares with others.
type spy struct {
	name   string
	log    *[]string
	onSend func(ctx context.Context, r *Record[string, string]) context.Context
}

func (s spy) OnSend(ctx context.Context, r *Record[string, string]) context.Context {
	*s.log = append(*s.log, fmt.Sprintf("%s send %s", s.name, r.Value))
	if s.onSend == nil {
		return ctx
	}
	return s.onSend(ctx, r)
}

func (s spy) OnAcknowledgement(ctx context.Context, m RecordMetadata, err error) {
	*s.log = append(*s.log, fmt.Sprintf("%s ack %s-%d@%d %v span %v", s.name, m.Topic, m.Partition, m.Offset, err, ctx.Value(ctxKey("span"))))
}

func appending(s string) func(context.Context, *Record[string, string]) context.Context {
	return func(ctx context.Context, r *Record[string, string]) context.Context {
		r.Value += s
		return context.WithValue(ctx, ctxKey("span"), s)
	}
}

// INT-01, S-22: the chain applies in order, each sees what the one before left; one that returns no ctx breaks nothing.
// INT-02, S-28: all are acknowledged, each with its own ctx, before the record's callback.
func TestInterceptorChain(t *testing.T) {
	var log []string
	chain := interceptors[string, string]{
		spy{"a", &log, appending("1")},
		spy{"b", &log, func(context.Context, *Record[string, string]) context.Context { return nil }},
		spy{"c", &log, appending("3")},
	}
	r := Record[string, string]{Topic: "t", Value: "v"}
	own := chain.onSend(t.Context(), &r)
	assert.Equal(t, "v13", r.Value)

	cb := chain.callback(own, func(m RecordMetadata, err error) { log = append(log, fmt.Sprintf("callback %d %v", m.Offset, err)) })
	cb(RecordMetadata{Topic: "t", Partition: 2, Offset: 7}, nil)
	assert.Equal(t, []string{
		"a send v", "b send v1", "c send v1",
		"a ack t-2@7 <nil> span 1", "b ack t-2@7 <nil> span 1", "c ack t-2@7 <nil> span 3",
		"callback 7 <nil>",
	}, log)
}

// INT-03: a failure before the partition is known is told with partition and offset -1, and to a record without a
// callback too.
func TestInterceptorsHearOfFailures(t *testing.T) {
	var log []string
	chain := interceptors[string, string]{spy{"a", &log, nil}}
	r := Record[string, string]{Topic: "t", Value: "v"}
	own := chain.onSend(t.Context(), &r)
	chain.callback(own, nil)(RecordMetadata{Topic: "t", Partition: -1, Offset: -1}, errors.New("no"))
	assert.Equal(t, []string{"a send v", "a ack t--1@-1 no span <nil>"}, log)
}

// A panic is not swallowed: it passes through to the caller of Send (delivery rule 8). Those after it are not called.
func TestInterceptorPanicPassesThrough(t *testing.T) {
	var log []string
	chain := interceptors[string, string]{
		spy{"a", &log, func(context.Context, *Record[string, string]) context.Context { panic("mine") }},
		spy{"b", &log, nil},
	}
	assert.PanicsWithValue(t, "mine", func() { chain.onSend(t.Context(), &Record[string, string]{}) })
	assert.Equal(t, []string{"a send "}, log)
}

// HDR-01, KP-31: what an interceptor appends keeps its order, and never lands in the caller's array.
func TestInterceptorMayAppendHeaders(t *testing.T) {
	var log []string
	add := func(key string) func(context.Context, *Record[string, string]) context.Context {
		return func(ctx context.Context, r *Record[string, string]) context.Context {
			r.Headers = append(r.Headers, Header{Key: key})
			return ctx
		}
	}
	chain := interceptors[string, string]{spy{"a", &log, add("a")}, spy{"b", &log, add("b")}}
	callers := make([]Header, 1, 8)
	callers[0] = Header{Key: "caller", Value: []byte("v")}
	r := Record[string, string]{Headers: callers}
	chain.onSend(t.Context(), &r)
	assert.Equal(t, []Header{{Key: "caller", Value: []byte("v")}, {Key: "a"}, {Key: "b"}}, r.Headers)
	assert.Equal(t, make([]Header, 7), callers[1:8], "the caller's spare room is untouched")
}

// Without interceptors nothing is wrapped and nothing allocated.
func TestNoInterceptorsCostNothing(t *testing.T) {
	var chain interceptors[string, string]
	r := Record[string, string]{}
	ctx := t.Context()
	calls := 0
	cb := func(RecordMetadata, error) { calls++ }
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		chain.callback(chain.onSend(ctx, &r), cb)(RecordMetadata{}, nil)
	}))
	assert.Positive(t, calls)
	assert.Nil(t, chain.callback(nil, nil))
}
