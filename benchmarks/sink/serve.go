package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// versions are what the brokers advertise: what Kafka 4 does, of the APIs that a producer needs. Fetch and FindCoordinator
// are among them because librdkafka concludes from them which record format and codecs a broker knows; nobody calls them.
var versions = []kmsg.ApiVersionsResponseApiKey{
	{ApiKey: keyProduce, MinVersion: 0, MaxVersion: 13}, // really from 3 on, as with Kafka 4
	{ApiKey: 1, MinVersion: 4, MaxVersion: 17},
	{ApiKey: keyMetadata, MinVersion: 0, MaxVersion: 13},
	{ApiKey: 10, MinVersion: 0, MaxVersion: 6},
	{ApiKey: keyAPIVersions, MinVersion: 0, MaxVersion: 4},
	{ApiKey: keyInitProducerID, MinVersion: 0, MaxVersion: 5},
}

const (
	keyProduce        = 0
	keyMetadata       = 3
	keyAPIVersions    = 18
	keyInitProducerID = 22
)

// Error codes.
const (
	unknownTopicOrPartition = 3
	unsupportedVersion      = 35
	unknownTopicID          = 100
)

// serve answers one connection until the client closes it.
func (s *Sink) serve(c *net.TCPConn) error {
	f, err := newFrame(c)
	if err != nil {
		return err
	}
	write := func(answer []byte) error {
		_, err := c.Write(answer)
		return err
	}
	if s.cfg.Delay > 0 {
		late := newLater(s.cfg.Delay, c)
		defer late.close()
		write = late.write
	}
	var answer []byte
	for {
		size, err := f.next()
		if gone(err) {
			return nil
		}
		key, version, correlation := f.int16(), f.int16(), f.int32()
		f.skip(f.stringLength(false)) // client id
		answer = append(answer[:0], 0, 0, 0, 0)
		answer = binary.BigEndian.AppendUint32(answer, uint32(correlation))
		wanted := true
		if key == keyProduce {
			answer, wanted = s.produce(f, version, size, answer)
		} else {
			answer, err = s.other(f, key, version, answer)
		}
		if err == nil {
			err = f.end()
		}
		switch {
		case gone(err):
			return nil
		case err != nil:
			return fmt.Errorf("api key %d, version %d: %w", key, version, err)
		case !wanted:
			continue
		}
		binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
		if write(answer) != nil {
			return nil // the client has gone
		}
	}
}

// gone reports whether an error says that the connection has ended, which a client may do when it likes.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET)
}

// other answers what clients ask now and then.
func (s *Sink) other(f *frame, key, version int16, answer []byte) ([]byte, error) {
	if key == keyAPIVersions && version > 4 {
		f.skip(f.left)
		return s.apiVersions(0, unsupportedVersion).AppendTo(answer), nil // the way to say which versions there are (KIP-511)
	}
	request := kmsg.RequestForKey(key)
	if request == nil {
		return nil, errors.New("there is no such API")
	}
	request.SetVersion(version)
	f.tags(request.IsFlexible())
	body := f.copyOf(f.left)
	if f.err != nil {
		return nil, f.err
	}
	if err := request.ReadFrom(body); err != nil {
		return nil, err
	}
	var response kmsg.Response
	switch r := request.(type) {
	case *kmsg.ApiVersionsRequest:
		if r.ClientSoftwareName != "" {
			s.mu.Lock()
			s.stats.Client = r.ClientSoftwareName + " " + r.ClientSoftwareVersion
			s.mu.Unlock()
		}
		return s.apiVersions(version, 0).AppendTo(answer), nil // its header never has tags
	case *kmsg.MetadataRequest:
		response = s.metadata(r)
	case *kmsg.InitProducerIDRequest:
		init := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		init.ProducerID = s.nextID.Add(1)
		response = init
	default:
		return nil, errors.New("the sink does not answer that")
	}
	if response.IsFlexible() {
		answer = append(answer, 0)
	}
	return response.AppendTo(answer), nil
}

func (s *Sink) apiVersions(version, code int16) *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.Version, r.ErrorCode, r.ApiKeys = version, code, versions
	return r
}

func (s *Sink) metadata(request *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	r := request.ResponseKind().(*kmsg.MetadataResponse)
	r.ClusterID = kmsg.StringPtr("sink")
	for i, l := range s.listeners {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = int32(i), "127.0.0.1", int32(l.Addr().(*net.TCPAddr).Port)
		r.Brokers = append(r.Brokers, b)
	}
	if request.Topics == nil || request.Version == 0 && len(request.Topics) == 0 {
		r.Topics = append(r.Topics, s.topic()) // all topics
	}
	for _, want := range request.Topics {
		switch {
		case want.Topic != nil && *want.Topic == Topic, want.Topic == nil && want.TopicID == topicID:
			r.Topics = append(r.Topics, s.topic())
		default:
			t := kmsg.NewMetadataResponseTopic()
			t.Topic, t.TopicID, t.ErrorCode = want.Topic, want.TopicID, unknownTopicOrPartition
			if want.Topic == nil {
				t.ErrorCode = unknownTopicID
			}
			r.Topics = append(r.Topics, t)
		}
	}
	return r
}

func (s *Sink) topic() kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID = kmsg.StringPtr(Topic), topicID
	for i := range s.parts {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), int32(i%len(s.listeners)), 0
		p.Replicas = []int32{p.Leader}
		p.ISR = p.Replicas
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// later writes answers some time after they were ready, in order. Requests wait for nothing of it, so that a client may
// have as many under way as it likes.
type later struct {
	delay time.Duration
	queue chan dueAnswer
	done  chan struct{}
}

type dueAnswer struct {
	at     time.Time
	answer []byte
}

func newLater(delay time.Duration, c net.Conn) *later {
	l := &later{delay: delay, queue: make(chan dueAnswer, 1024), done: make(chan struct{})}
	go func() { // ends when the queue is closed
		defer close(l.done)
		for a := range l.queue {
			time.Sleep(time.Until(a.at))
			if _, err := c.Write(a.answer); err != nil {
				_ = c.Close() // the reader sees it
			}
		}
	}()
	return l
}

func (l *later) write(answer []byte) error {
	l.queue <- dueAnswer{time.Now().Add(l.delay), append([]byte(nil), answer...)}
	return nil
}

func (l *later) close() {
	close(l.queue)
	<-l.done
}
