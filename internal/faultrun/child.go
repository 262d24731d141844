package faultrun

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-reservoir/producer"
	"github.com/kafka-reservoir/producer/internal/leak"
	"github.com/kafka-reservoir/producer/protocol"
)

// ChildEnv says, in the environment, that the process is to be the producer's: it calls Child and nothing else.
const ChildEnv = "RESERVOIR_FAULTRUN_CHILD"

// What the process is told to do on its standard input, after a line with its Settings.
const (
	orderFlush = "flush" // Flush with a ctx that is too short
	orderStop  = "stop"  // end the load, Flush and Close
	orderClose = "close" // end the load and Close, which has to wait for all that is under way
	orderForce = "force" // Close with a ctx that is too short
)

// shortCtx is the time of the calls that are meant to run out of it.
const shortCtx = 200 * time.Millisecond

// child is the producer's process.
type child struct {
	Settings
	p    *producer.KafkaProducer[[]byte, []byte]
	tell *teller

	stop    atomic.Bool    // no more records
	load    sync.WaitGroup // of the senders
	sent    [senders]atomic.Int64
	open    atomic.Int64 // records without a callback
	closed  atomic.Bool  // Close has returned
	late    atomic.Int64 // the most that a Flush was late, in ns
	flushes sync.WaitGroup
}

// Child is the producer's process. It returns when it has nothing more to say.
func Child(in io.Reader, out io.Writer) error {
	orders := bufio.NewScanner(in)
	if !orders.Scan() {
		return errors.New("faultrun: no settings")
	}
	c := child{tell: newTeller(out)}
	if err := json.Unmarshal(orders.Bytes(), &c.Settings); err != nil {
		return fmt.Errorf("faultrun: settings: %w", err)
	}
	var lag atomic.Int64
	go func() { // ends with the process
		for {
			slept := time.Now()
			time.Sleep(pulse)
			lag.Store(max(lag.Load(), int64(time.Since(slept)-pulse)))
			_ = c.tell.flush() // nobody is left to tell
		}
	}()
	debug.FreeOSMemory()
	r := report{Empty: resident()}
	cfg := c.config()
	cfg.Trace = &producer.Trace{ConnectDone: func(node int32, _ string, _ time.Duration, _ error) { c.tell.connected(node, time.Now()) }}
	var err error
	if c.p, err = producer.New(cfg, producer.Bytes(), producer.Bytes()); err != nil {
		return err
	}
	for s := range senders {
		c.load.Go(func() { c.send(s) }) // ends when stop is set, or the producer is closed
	}
	for orders.Scan() {
		switch orders.Text() {
		case orderFlush:
			c.flushes.Go(c.flushShortly) // ends with its ctx, soon
			continue
		case orderStop:
			c.finish(&r, true)
		case orderClose:
			c.finish(&r, false)
		case orderForce:
			c.force(&r)
		}
		break
	}
	c.flushes.Wait()
	r.Flush = time.Duration(c.late.Load())
	r.Goroutines, r.Sockets = left()
	m := c.p.Metrics()
	r.Lent = m.BufferTotalBytes - m.BufferAvailableBytes
	time.Sleep(c.Watch)
	for s := range senders {
		r.Sent[s] = int(c.sent[s].Load())
	}
	r.Peak, r.Lag = peak(), time.Duration(lag.Load())
	return c.tell.end(&r)
}

// pulse is how often the process tells what it knows, and looks how far the machine holds it up.
const pulse = 10 * time.Millisecond

// pace is how often a sender sends what is due.
const pace = 5 * time.Millisecond

// send is one sender.
func (c *child) send(sender int) {
	due := 0.0
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	var value []byte
	for seq := 0; ; <-ticker.C {
		// What a full buffer has held up is not made up for: the load stays what it is.
		for due += float64(c.Rate) * pace.Seconds(); due >= 1; due-- {
			if c.stop.Load() {
				return
			}
			i := newID(sender, seq)
			seq++
			value = i.appendValue(value[:0], c.Largest)
			c.one(i, value)
		}
	}
}

// one sends a record.
func (c *child) one(i id, value []byte) {
	r := producer.Record[[]byte, []byte]{Topic: topic, Key: i.key(), Value: value}
	if p := i.partition(); p != anywhere {
		r.Partition = producer.OnPartition(p)
	}
	c.sent[i.sender()].Add(1)
	c.open.Add(1)
	s := &sent{c: c, id: i}
	c.p.SendFunc(context.Background(), r, s.done)
	s.accepted.Store(time.Now().UnixNano())
}

// sent is a record on its way.
type sent struct {
	c        *child
	id       id
	accepted atomic.Int64 // when Send returned; 0 before
}

// done is the record's callback.
func (s *sent) done(m producer.RecordMetadata, err error) {
	now := time.Now()
	var age time.Duration
	if at := s.accepted.Load(); at != 0 {
		age = now.Sub(time.Unix(0, at))
	}
	s.c.open.Add(-1)
	flags := ""
	if s.c.closed.Load() {
		flags = flagLate
	}
	if err == nil {
		s.c.tell.acked(s.id, m.Partition, m.Offset, now, age, flags)
		return
	}
	flags += flagsOf(err)
	if strings.Contains(flags, flagClosed) {
		s.c.stop.Store(true)
	}
	s.c.tell.failed(s.id, m.Partition, now, age, flags, err.Error())
}

func flagsOf(err error) string {
	flags := ""
	if !errors.As(err, new(*producer.DeliveryError)) {
		flags += flagRefused
	}
	if errors.Is(err, producer.ErrClosed) {
		flags += flagClosed
	}
	if errors.Is(err, producer.ErrForceClosed) {
		flags += flagForced
	}
	if errors.Is(err, producer.ErrDeliveryTimeout) {
		flags += flagTimeout
	}
	if producer.MayHaveBeenWritten(err) {
		flags += flagMay
	}
	if errors.Is(err, protocol.UnknownProducerID) || errors.Is(err, protocol.OutOfOrderSequenceNumber) {
		flags += flagForgot
	}
	return flags
}

// flushShortly is a Flush in the middle of the fault.
func (c *child) flushShortly() {
	ctx, cancel := context.WithTimeout(context.Background(), shortCtx)
	defer cancel()
	began := time.Now()
	if c.p.Flush(ctx) != nil {
		late := int64(time.Since(began) - shortCtx)
		for old := c.late.Load(); late > old && !c.late.CompareAndSwap(old, late); old = c.late.Load() {
		}
	}
}

// finish ends in the ordinary way. After a Flush nothing is buffered when Close is called.
func (c *child) finish(r *report, flush bool) {
	c.stop.Store(true)
	c.load.Wait()
	// All records are settled by then, whatever happens.
	ctx, cancel := context.WithTimeout(context.Background(), c.DeliveryTimeout+time.Minute)
	defer cancel()
	if flush {
		if err := c.p.Flush(ctx); err != nil {
			r.FlushError = err.Error()
		}
	}
	r.Buffered = c.open.Load() > 0
	began := time.Now()
	err := c.p.Close(ctx)
	c.closed.Store(true)
	r.Close = time.Since(began)
	if err != nil {
		r.CloseError = err.Error()
	}
}

// force closes while records are sent and under way.
func (c *child) force(r *report) {
	ctx, cancel := context.WithTimeout(context.Background(), shortCtx)
	defer cancel()
	r.Buffered = c.open.Load() > 0
	began := time.Now()
	err := c.p.Close(ctx)
	r.Close = time.Since(began)
	// Where the machine is slow, callbacks may take longer than what Close waits for them beyond its ctx. It says so then.
	c.closed.Store(err == nil || !strings.Contains(err.Error(), "callback is still running"))
	if ctx.Err() != nil && err != nil {
		r.Forced = true
		r.Close -= shortCtx
	}
	c.stop.Store(true)
	c.load.Wait()
}

// left looks for what a closed producer has left behind. A goroutine that has let go of Close may need a moment to return.
func left() (stacks []string, sockets int) {
	for range 100 {
		stacks, sockets = leak.Goroutines(), openSockets()
		if len(stacks) == 0 && sockets == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return stacks, sockets
}

// openSockets counts the process's sockets, where the system tells.
func openSockets() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// resident and peak are the resident size of the process and the most it ever was, in bytes; 0 where the system does not tell.
func resident() int64 { return status("VmRSS:") }
func peak() int64     { return status("VmHWM:") }

func status(name string) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
