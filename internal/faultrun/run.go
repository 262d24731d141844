package faultrun

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kafka-reservoir/producer/internal/testbroker"
)

// Options of a run. The zero value is an ordinary run of seed 0.
type Options struct {
	Seed   uint64
	Forced bool // Close in the middle of the fault
	// Quick has the fault last no longer than it takes to strike, for tests.
	Quick bool
	// RetryBackoffMax is the producer's; zero means its default.
	RetryBackoffMax time.Duration
	// Journal keeps what the brokers saw, also of a clean run.
	Journal bool
	// Command starts the producer's process. Nil starts this program again.
	Command func() *exec.Cmd
}

// Result is what a run has shown.
type Result struct {
	Fault *Fault
	Options
	Tally
	// Broken are the rules that were broken, in words; none means that the run was clean.
	Broken  []string
	Reasons map[string]int // of failures
	Hits    int64          // how often the fault struck

	// What was measured. Each is compared with a bound of delivery's; negative means that there was nothing to measure.
	Recovery   time.Duration
	Recovered  bool
	Memory     int64 // peak resident over empty, bytes
	Connects   int   // attempts within a second, at most
	Metadata   int   // requests for topics within a second, at most
	Oldest     time.Duration
	Delivery   time.Duration // the delivery timeout
	FlushLate  time.Duration // after its ctx
	CloseLate  time.Duration // after its ctx
	CloseEmpty time.Duration
	Lag        time.Duration // of the machine: no bound, but no time is exact below it

	Seen []testbroker.Entry // the brokers' journal; nil for a clean run, unless Options.Journal
}

const unmeasured = -1

// patience bounds how long a run waits for what should be there in moments; that of a test is longer than any machine is slow.
const patience = 20 * time.Second

func (o Options) patience() time.Duration {
	if o.Quick {
		return 10 * patience
	}
	return patience
}

// run is one under way.
type run struct {
	*Result
	s      *stage
	b      *book
	cmd    *exec.Cmd
	orders io.WriteCloser
	errs   bytes.Buffer // the process's standard error
	told   chan error   // its standard output is at its end
}

// Run plays one fault. An error means that the run could not be made.
func Run(f *Fault, o Options) (*Result, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	settings := defaults()
	settings.RetryBackoffMax = o.RetryBackoffMax
	if o.Quick {
		settings.Watch, settings.DeliveryTimeout = 0, 10*patient
	}
	if f.settings != nil {
		f.settings(&settings)
	}
	r := &run{
		Result: &Result{
			Fault: f, Options: o, Recovery: unmeasured, Memory: unmeasured, FlushLate: unmeasured, CloseLate: unmeasured, CloseEmpty: unmeasured,
			Delivery: settings.DeliveryTimeout,
		},
		s: newStage(ctx, f.Name, o.Seed, o.Quick), b: newBook(settings.Largest), told: make(chan error, 1),
	}
	r.s.book = r.b
	var cfg testbroker.Config
	if f.cluster != nil {
		f.cluster(&cfg, o.Seed)
	}
	if err := r.s.start(cfg, f.spares); err != nil {
		return nil, err
	}
	defer r.s.end()
	settings.Brokers = r.s.server.Addrs()[:nodes]

	played := make(chan struct{})
	play := func() {
		go func() { // ends when the fault is over, or ctx has ended
			defer close(played)
			f.play(r.s)
		}()
	}
	if f.early {
		play()
	}
	if err := r.launch(settings); err != nil {
		return nil, err
	}
	if !f.early {
		if r.warm() {
			r.s.pause(200*ms, 600*ms)
		}
		play()
	}
	r.proceed(played)
	r.await()
	cancel()
	<-played
	r.s.calm()
	for _, p := range every() {
		r.b.scan(r.s.cluster, p)
	}
	r.judge()
	return r.Result, nil
}

// launch starts the producer's process.
func (r *run) launch(settings Settings) error {
	r.cmd = exec.Command(os.Args[0])
	if r.Command != nil {
		r.cmd = r.Command()
	}
	r.cmd.Env = append(os.Environ(), ChildEnv+"=1")
	r.cmd.Stderr = &r.errs
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if r.orders, err = r.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	r.order(string(text))
	go func() { r.told <- r.listen(out) }() // ends with the process
	return nil
}

// order tells the process to do something. One that has ended is found out elsewhere.
func (r *run) order(what string) { _, _ = io.WriteString(r.orders, what+"\n") }

// listen takes in what the process tells.
func (r *run) listen(out io.Reader) error {
	need := func(e *event) bool { return r.Fault.May.needless(e, r.Forced) }
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 64<<10), 4<<20)
	for lines.Scan() {
		e, err := parse(lines.Text())
		if err != nil {
			return err
		}
		r.b.tell(&e, need)
	}
	return lines.Err()
}

// warm waits until all partitions have been written to.
func (r *run) warm() bool {
	limit := time.After(r.patience())
	for {
		all, news := r.b.allWrote()
		if all {
			return true
		}
		select {
		case <-news:
		case <-limit:
			r.b.breaks("not all partitions were written to within %v, before anything had gone wrong", r.patience())
			return false
		case err := <-r.told:
			r.told <- err
			return false
		}
	}
}

// proceed goes from the beginning of the fault to the order to end.
func (r *run) proceed(played <-chan struct{}) {
	r.s.wait(time.Duration(r.Seed%5+1) * 80 * ms)
	r.s.await(1)
	if r.Forced {
		r.order(orderForce)
		return
	}
	r.order(orderFlush)
	select {
	case <-played:
	case err := <-r.told: // it is dead
		r.told <- err
		return
	}
	r.s.healed()
	if r.Fault.Heals != never {
		r.recover()
		if !r.Quick {
			r.s.wait(200 * ms)
		}
	}
	if r.Seed%2 == 0 {
		r.order(orderStop)
	} else {
		r.order(orderClose)
	}
}

// recover waits until all partitions are written to again.
func (r *run) recover() {
	limit := time.Now().Add(r.patience())
	for {
		if r.Recovery, r.Recovered = r.s.writing(); r.Recovered {
			return
		}
		select {
		case err := <-r.told:
			r.told <- err
			return
		case <-time.After(2 * ms):
		}
		if time.Now().After(limit) {
			r.b.breaks("not all partitions are written to %v after all was well again", r.patience())
			return
		}
	}
}

// await waits for the process to end, or ends it.
func (r *run) await() {
	limit := r.Delivery + time.Minute + r.patience()
	kill := time.AfterFunc(limit, func() {
		r.b.breaks("the producer's process did not end within %v, and was killed", limit)
		_ = r.cmd.Process.Kill()
	})
	defer kill.Stop()
	if err := <-r.told; err != nil {
		r.b.breaks("what the process tells: %v", err)
	}
	_ = r.orders.Close()
	if err := r.cmd.Wait(); err != nil {
		r.b.breaks("crash: %v: %s", err, firstLines(r.errs.String(), 30))
	}
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(s, "\n", n+1)
	return strings.Join(lines[:min(len(lines), n)], "\n")
}

// judge says what all of it means.
func (r *run) judge() {
	r.b.check()
	b := r.b
	if e := b.end; e == nil {
		b.breaks("the producer's process has not told how it ended")
	} else {
		r.judgeEnd(e)
	}
	for _, v := range r.s.cluster.Violations() {
		b.breaks("the brokers complain: %v", v)
	}
	for _, o := range r.s.others {
		for _, p := range every() {
			if n := o.Cluster().PartitionStats(topic, p).Records; n > 0 {
				b.t.Misrouted += int(n)
				b.breaks("another cluster has taken %d records", n)
			}
		}
	}
	r.Hits = r.s.hits.Load()
	if r.Hits == 0 {
		b.breaks("the fault has not struck")
	}
	r.Tally, r.Reasons, r.Oldest = b.t, b.reasons, b.oldest
	r.Connects, r.Metadata = within(b.connects), within(r.s.metadata)
	r.Broken = append(r.Tally.Bad(), b.broken...)
	if !r.Recovered {
		r.Recovery = unmeasured
	}
	if len(r.Broken) > 0 || r.Options.Journal {
		r.Seen = r.s.cluster.Journal(0)
	}
}

func (r *run) judgeEnd(e *report) {
	b := r.b
	r.Lag = e.Lag
	if e.Peak > 0 {
		r.Memory = e.Peak - e.Empty
	}
	switch {
	case r.Forced && e.Forced:
		r.CloseLate = max(e.Close, 0)
	case !r.Forced:
		r.FlushLate = max(e.Flush, 0)
		if !e.Buffered {
			r.CloseEmpty = e.Close
		}
	}
	if e.FlushError != "" {
		b.breaks("the last Flush: %s", e.FlushError)
	}
	if e.CloseError != "" {
		b.breaks("Close: %s", e.CloseError)
	}
	if n := len(e.Goroutines); n > 0 {
		b.breaks("%d goroutines left after Close, the first: %s", n, firstLines(e.Goroutines[0], 12))
	}
	if e.Sockets > 0 {
		b.breaks("%d sockets left after Close", e.Sockets)
	}
	if e.Lent != 0 {
		b.breaks("%d bytes of the buffer did not come back", e.Lent)
	}
}

// within is the largest number of times that lie within one second.
func within(times []time.Time) int {
	slices.SortFunc(times, time.Time.Compare)
	most, from := 0, 0
	for i, t := range times {
		for t.Sub(times[from]) > time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// Complaint is all that was wrong, as one error; nil if nothing was.
func (r *Result) Complaint() error {
	var errs []error
	for _, s := range r.Broken {
		errs = append(errs, errors.New(s))
	}
	return errors.Join(errs...)
}

// String names the run.
func (r *Result) String() string {
	s := fmt.Sprintf("%s seed %d", r.Fault.Name, r.Seed)
	if r.Forced {
		s += ", closed in the middle"
	}
	return s
}
