package metrics

import (
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func TestCounterHasTotalAndRateOverWindows(t *testing.T) {
	s := New(2, 10*time.Second, start)
	s.RecordSendTotal.Add(100)
	assert.EqualValues(t, 100, s.RecordSendTotal.Load())
	assert.InDelta(t, 20, s.Rate(&s.RecordSendTotal, at(5*time.Second)), 1e-9)

	// The second window: the first still counts, as the window before.
	s.Tick(at(10 * time.Second))
	s.RecordSendTotal.Add(50)
	assert.InDelta(t, 10, s.Rate(&s.RecordSendTotal, at(15*time.Second)), 1e-9)

	// The third: the first is forgotten, by the rate but not by the total.
	s.Tick(at(20 * time.Second))
	assert.InDelta(t, 5, s.Rate(&s.RecordSendTotal, at(20*time.Second)), 1e-9)
	assert.EqualValues(t, 150, s.RecordSendTotal.Load())
}

func TestRateIsZeroAfterALongSilence(t *testing.T) {
	s := New(2, 10*time.Second, start)
	s.RecordErrorTotal.Add(7)
	s.BatchSize.Observe(5)
	s.Tick(at(95 * time.Second)) // a window and a half of the newest grid
	assert.Zero(t, s.Rate(&s.RecordErrorTotal, at(95*time.Second)))
	avg, top := s.AvgMax(&s.BatchSize, at(95*time.Second))
	assert.Zero(t, avg)
	assert.Zero(t, top)

	s.RecordErrorTotal.Add(15)
	assert.InDelta(t, 1, s.Rate(&s.RecordErrorTotal, at(95*time.Second)), 1e-9, "15 in the 15 s since 80 s")
}

func TestRateBeforeAnyTimePassedIsZero(t *testing.T) {
	s := New(0, 0, start)
	s.RecordSendTotal.Add(1)
	assert.Zero(t, s.Rate(&s.RecordSendTotal, start))
	assert.Zero(t, s.Rate(&s.RecordSendTotal, at(-time.Second)), "a clock that went back")
}

func TestStatForgetsWindowByWindow(t *testing.T) {
	for _, samples := range []int{1, 2, 3} {
		s := New(samples, time.Second, start)
		for i := range 10 {
			s.Tick(at(time.Duration(i) * time.Second))
			s.RequestLatency.Observe(int64(10 - i))
			avg, top := s.AvgMax(&s.RequestLatency, at(time.Duration(i)*time.Second))
			seen := min(i+1, samples)
			assert.EqualValues(t, 10-i+seen-1, top, "samples %d window %d", samples, i)
			assert.InDelta(t, float64(10-i)+float64(seen-1)/2, avg, 1e-9, "samples %d window %d", samples, i)
		}
	}
}

func TestStatSkippedWindowsAreEmpty(t *testing.T) {
	s := New(3, time.Second, start)
	s.BatchSize.Observe(9)
	s.Tick(at(2 * time.Second)) // one window without a Tick between
	_, top := s.AvgMax(&s.BatchSize, at(2*time.Second))
	assert.EqualValues(t, 9, top, "still within three windows")
	s.Tick(at(3 * time.Second))
	_, top = s.AvgMax(&s.BatchSize, at(3*time.Second))
	assert.Zero(t, top)
}

func TestStatTakesRatiosAndNegativeDurations(t *testing.T) {
	s := New(0, 0, start)
	s.CompressionRate.ObserveRatio(25, 100)
	s.CompressionRate.ObserveRatio(1, 0)
	avg, _ := s.AvgMax(&s.CompressionRate, start)
	assert.InDelta(t, 0.25, avg/RatioUnit, 1e-9)
	s.RecordQueueTime.ObserveDuration(-time.Second)
	avg, top := s.AvgMax(&s.RecordQueueTime, start)
	assert.Zero(t, avg)
	assert.Zero(t, top)
}

func TestTopicsAndNodesAreMadeOnceAndForgotten(t *testing.T) {
	s := New(0, 0, start)
	a := s.Topic("a")
	assert.Same(t, a, s.Topic("a"))
	a.ByteTotal.Add(3)
	n := s.Node(7)
	assert.Same(t, n, s.Node(7))
	n.RequestTotal.Add(1)

	names := map[string]int64{}
	s.Topics(func(name string, ts *TopicSet) { names[name] = ts.ByteTotal.Load() })
	assert.Equal(t, map[string]int64{"a": 3}, names)
	ids := map[int32]int64{}
	s.Nodes(func(id int32, ns *NodeSet) { ids[id] = ns.RequestTotal.Load() })
	assert.Equal(t, map[int32]int64{7: 1}, ids)

	members := len(s.member)
	s.ForgetTopic("a")
	s.ForgetNode(7)
	s.ForgetTopic("never seen")
	a.ByteTotal.Add(1) // a pointer kept stays good
	s.Topics(func(string, *TopicSet) { t.Error("topic not forgotten") })
	s.Nodes(func(int32, *NodeSet) { t.Error("node not forgotten") })
	assert.Equal(t, members-len(a.all())-len(n.all()), len(s.member))
}

// Every Counter and Stat must have windows, or its rate would panic.
func TestEveryFieldHasWindows(t *testing.T) {
	s := New(0, 0, start)
	for _, set := range []any{s, s.Topic("t"), s.Node(1)} {
		v := reflect.ValueOf(set).Elem()
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			switch m := v.Field(i).Addr().Interface().(type) {
			case *Counter:
				assert.Contains(t, s.member, windowed(m), f.Name)
			case *Stat:
				assert.Contains(t, s.member, windowed(m), f.Name)
			case *Gauge:
			default:
				require.Failf(t, "unknown kind of field", "%s is a %T", f.Name, m)
			}
		}
	}
}

func TestOrNewKeepsOrMakes(t *testing.T) {
	s := New(0, 0, start)
	assert.Same(t, s, OrNew(s))
	o := OrNew(nil)
	o.RecordSendTotal.Add(1)
	o.Topic("t").ByteTotal.Add(1)
	o.BatchSize.Observe(1)
	o.Tick(start)
	assert.EqualValues(t, 1, o.RecordSendTotal.Load())
}

func TestSetFromManyGoroutines(t *testing.T) {
	s := New(2, time.Millisecond, start)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				s.RecordSendTotal.Add(1)
				s.BatchSize.Observe(int64(i))
				s.Topic("t").RecordSendTotal.Add(1)
				s.Node(int32(g % 2)).RequestLatency.Observe(1)
				s.Tick(at(time.Duration(i) * 100 * time.Microsecond))
				s.Rate(&s.RecordSendTotal, at(time.Second))
				s.AvgMax(&s.BatchSize, at(time.Second))
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 4000, s.RecordSendTotal.Load())
	assert.EqualValues(t, 4000, s.Topic("t").RecordSendTotal.Load())
}

func TestEventsDoNotAllocate(t *testing.T) {
	s := New(0, 0, start)
	topic := s.Topic("t")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		s.RecordSendTotal.Add(1)
		s.BatchSize.Observe(100)
		topic.RecordSendTotal.Add(1)
		s.Topic("t").ByteTotal.Add(1)
		s.WaitingThreads.Add(1)
		s.Tick(start)
	}))
}
