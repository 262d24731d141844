package testbroker

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/internal/compress"
	"github.com/kafka-reservoir/producer/internal/simnet"
	"github.com/kafka-reservoir/producer/protocol"
)

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// recent is a plain batch that is accepted by a broker with the real clock.
func recent(values ...string) []byte {
	return batchSpec{at: time.Now().UnixMilli(), producer: protocol.NoProducerID, sequence: -1, values: values}.build()
}

func TestServerProduceAndFetchAllCodecs(t *testing.T) {
	s := start(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{2}}}})
	c := dial(t, s.Addrs()[0])
	v := c.do(&protocol.ApiVersionsRequest{ClientSoftwareName: "x", ClientSoftwareVersion: "1"}, 3).(*protocol.ApiVersionsResponse)
	require.Equal(t, protocol.None, v.ErrorCode)
	md := c.do(metadataFor("t"), 12).(*protocol.MetadataResponse)
	require.Len(t, md.Brokers, 2)
	leader := md.Brokers[md.Topics[0].Partitions[0].LeaderID-1]
	addr := fmt.Sprintf("%s:%d", leader.Host, leader.Port)
	assert.Equal(t, s.Addr(2), addr)

	c = dial(t, addr)
	var want []string
	for _, codec := range []protocol.Codec{protocol.CodecNone, protocol.CodecGzip, protocol.CodecSnappy, protocol.CodecLZ4, protocol.CodecZstd} {
		spec := batchSpec{codec: codec, at: time.Now().UnixMilli(), producer: protocol.NoProducerID, sequence: -1}
		for i := range 50 {
			spec.values = append(spec.values, fmt.Sprintf("value %d of a batch with codec %v", i, codec))
		}
		if codec != protocol.CodecNone {
			z, err := compress.New(codec, compress.DefaultLevel)
			require.NoError(t, err)
			spec.compress = func(b []byte) []byte {
				out, err := z.Compress(nil, [][]byte{b})
				require.NoError(t, err)
				return out
			}
		}
		out := c.do(produce(-1, "t", 0, spec.build()), 12).(*protocol.ProduceResponse).Topics[0].Partitions[0]
		require.Equal(t, protocol.None, out.ErrorCode, "%v", codec)
		assert.Equal(t, int64(len(want)), out.BaseOffset)
		want = append(want, spec.values...)
	}
	var got []string
	for _, r := range s.Cluster().Records("t", 0) {
		got = append(got, string(r.Value))
	}
	assert.Equal(t, want, got)
	s.Cluster().Check(t)
}

// S-98: frames that come in one segment are answered in order; a request that trickles is put together (S-97).
func TestServerPipelinesAndReassembles(t *testing.T) {
	s := start(t, Config{Topics: []Topic{{Name: "t"}}})
	c := dial(t, s.Addr(1))
	var all []byte
	for i := range int32(10) {
		all = append(all, prefixed(frameOf(produce(-1, "t", 0, recent(fmt.Sprint(i))), 12, i+1))...)
	}
	_, err := c.nc.Write(all)
	require.NoError(t, err)
	m := produce(-1, "t", 0)
	for i := range int32(10) {
		r := c.receive(m, 12, i+1).(*protocol.ProduceResponse)
		assert.Equal(t, int64(i), r.Topics[0].Partitions[0].BaseOffset)
	}
	for _, b := range prefixed(frameOf(produce(-1, "t", 0, recent("x")), 12, 99)) {
		_, err := c.nc.Write([]byte{b})
		require.NoError(t, err)
	}
	c.receive(m, 12, 99)
	s.Cluster().Check(t)
}

func TestServerRefusesFrameLengths(t *testing.T) {
	s := start(t, Config{MaxRequestBytes: 1000})
	for _, prefix := range []string{"\xff\xff\xff\xff", "\x00\x00\x03\xe9", "\x16\x03\x01\x05", "GET "} {
		c := dial(t, s.Addr(1))
		_, err := io.WriteString(c.nc, prefix+"and more")
		require.NoError(t, err)
		_, err = c.read()
		assert.ErrorIs(t, err, io.EOF)
	}
	assert.Len(t, s.Cluster().TakeViolations(), 4)
}

func TestServerStopAndStartNode(t *testing.T) {
	s := start(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}})
	c := dial(t, s.Addr(1))
	c.do(produce(-1, "t", 0, recent("a")), 12)
	require.NoError(t, s.StopNode(1))
	assert.Error(t, s.StopNode(1))
	_, err := c.read()
	assert.ErrorIs(t, err, io.EOF)
	_, err = net.Dial("tcp", s.Addr(1))
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	node, epoch := s.Cluster().Leader("t", 0)
	assert.Equal(t, [2]int32{2, 1}, [2]int32{node, epoch})

	c = dial(t, s.Addr(2))
	c.do(produce(-1, "t", 0, recent("b")), 12)
	require.NoError(t, s.StartNode(1))
	assert.Error(t, s.StartNode(1))
	require.NoError(t, s.MoveLeader("t", 0, 1))
	c = dial(t, s.Addr(1))
	r := c.do(produce(-1, "t", 0, recent("c")), 12).(*protocol.ProduceResponse)
	assert.Equal(t, int64(2), r.Topics[0].Partitions[0].BaseOffset)

	// Back at another address.
	old := s.Addr(1)
	require.NoError(t, s.StopNode(1))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, s.StartNodeAt(1, l))
	assert.NotEqual(t, old, s.Addr(1))
	md := dial(t, s.Addr(1)).do(metadataFor(), 12).(*protocol.MetadataResponse)
	assert.Equal(t, s.Addr(1), fmt.Sprintf("%s:%d", md.Brokers[0].Host, md.Brokers[0].Port))
}

// A drop with FIN is one even when requests lie unread behind it; RST is a reset.
func TestServerDrops(t *testing.T) {
	how := make(chan Verdict, 10)
	s := start(t, Config{Topics: []Topic{{Name: "t"}}, Fault: func(*Request) Verdict { return <-how }})
	for range 20 {
		how <- DropBefore()
		c := dial(t, s.Addr(1))
		one := prefixed(frameOf(produce(-1, "t", 0, recent("x")), 12, 1))
		_, err := c.nc.Write(append(append(one, one...), one...))
		require.NoError(t, err)
		_, err = c.read()
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, c.nc.Close())
	}
	how <- Verdict{Drop: DropRST}
	c := dial(t, s.Addr(1))
	c.send(produce(-1, "t", 0, recent("x")), 12)
	_, err := c.read()
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Len(t, s.Cluster().Records("t", 0), 1)
	s.CloseConns(0, DropFIN)
}

// The faults that need a part of a request: reset in the middle, and read no further.
func TestServerFaultRead(t *testing.T) {
	var got atomic.Value
	verdict := ReadVerdict{Drop: DropRST, After: 600}
	s := start(t, Config{Topics: []Topic{{Name: "t"}}, FaultRead: func(p Partial) ReadVerdict {
		if p.API != protocol.KeyProduce {
			return ReadVerdict{}
		}
		p.Head = append([]byte(nil), p.Head...)
		got.Store(p)
		return verdict
	}})
	c := dial(t, s.Addr(1))
	c.do(metadataFor(), 12)
	frame := frameOf(produce(-1, "t", 0, recent(string(make([]byte, 10_000)))), 12, 7)
	_, err := c.nc.Write(prefixed(frame)[:700])
	require.NoError(t, err)
	_, err = c.read()
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	p := got.Load().(Partial)
	assert.Equal(t, []any{int32(1), len(frame), int16(12), int32(7), frame[:512]}, []any{p.Node, p.Size, p.Version, p.CorrelationID, p.Head})
	assert.Empty(t, s.Cluster().Records("t", 0))
	assert.Empty(t, s.Cluster().Violations())
}

// In a bubble, on a network made of memory: holds and long polls take fake time, and Close leaves no goroutine.
func TestServerInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(simnet.Link{Latency: time.Millisecond})
		var hold atomic.Int64
		s := start(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}},
			Listen: func(node int32) (net.Listener, error) { return network.Listen(fmt.Sprintf("node%d:9092", node)) },
			Fault:  func(*Request) Verdict { return Hold(time.Duration(hold.Load())) },
		})
		connect := func(node int32) *client {
			nc, err := network.Dial(context.Background(), "tcp", s.Addr(node))
			require.NoError(t, err)
			return &client{t: t, nc: nc}
		}
		assert.Equal(t, []string{"node1:9092", "node2:9092"}, s.Addrs())
		began := time.Now()
		c := connect(1)
		hold.Store(int64(time.Hour))
		c.do(metadataFor("t"), 12)
		assert.Equal(t, time.Hour+4*time.Millisecond, time.Since(began))
		hold.Store(0)

		// A consumer waits for what a producer sends later.
		core := &core{Cluster: s.Cluster(), t: t}
		consumer := connect(1)
		consumer.send(fetch(core, 0, 1, 10*time.Second), 13)
		time.Sleep(5 * time.Second)
		began = time.Now()
		c.do(produce(-1, "t", 0, recent("a")), 12)
		p := fetched(consumer.receive(fetch(core, 0, 1, 0), 13, 1))
		assert.NotEmpty(t, p.Records)
		assert.Equal(t, 2*time.Millisecond, time.Since(began))
		consumer.send(fetch(core, 1, 1, 10*time.Second), 13)
		consumer.receive(fetch(core, 0, 1, 0), 13, 2)
		assert.Equal(t, 10*time.Second+4*time.Millisecond, time.Since(began))

		require.NoError(t, s.StopNode(1))
		_, err := c.read()
		assert.ErrorIs(t, err, io.EOF)
		_, err = network.Dial(context.Background(), "tcp", s.Addr(1))
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NoError(t, s.StartNode(1))
		connect(1).do(metadataFor("t"), 12)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
	})
}

// A stalled connection stays open and unread until the server ends it.
func TestServerStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(simnet.Link{Buffer: 1000})
		s := start(t, Config{
			Listen:    func(int32) (net.Listener, error) { return network.Listen("node:1") },
			FaultOpen: func(int32, ConnID) ConnVerdict { return ConnVerdict{Stall: true} },
		})
		nc, err := network.Dial(context.Background(), "tcp", s.Addr(1))
		require.NoError(t, err)
		require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
		n, err := nc.Write(make([]byte, 5000))
		assert.Error(t, err)
		assert.LessOrEqual(t, n, 1000)
		s.CloseConns(1, DropFIN)
		require.NoError(t, nc.SetDeadline(time.Time{}))
		_, err = nc.Read(make([]byte, 1))
		assert.Error(t, err)
	})
}

// Refused, the node stays where it is for the rest of the cluster; Await sees what the clients do.
func TestServerRefuse(t *testing.T) {
	s := start(t, Config{Nodes: 2, Topics: []Topic{{Name: "t", Leaders: []int32{1}}}})
	c := dial(t, s.Addr(1))
	c.do(metadataFor("t"), 12)
	require.NoError(t, s.Refuse(1))
	assert.Error(t, s.Refuse(1))
	_, err := net.Dial("tcp", s.Addr(1))
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	c.do(metadataFor("t"), 12) // a connection that exists goes on
	s.CloseConns(1, DropRST)
	_, err = c.read()
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	node, _ := s.Cluster().Leader("t", 0)
	assert.Equal(t, int32(1), node)
	require.NoError(t, s.Accept(1))

	go dial(t, s.Addr(1)).send(metadataFor("t", "u"), 12)
	e, err := s.Cluster().Await(t.Context(), 0, func(e Entry) bool { return e.Request != nil && len(e.Request.Topics) == 2 })
	require.NoError(t, err)
	assert.Equal(t, []string{"t", "u"}, e.Request.Topics)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Cluster().Await(ctx, 0, func(Entry) bool { return false })
	assert.ErrorIs(t, err, context.Canceled)
}

func TestServerManyClients(t *testing.T) {
	s := start(t, Config{Nodes: 3, Partitions: 6, Topics: []Topic{{Name: "t"}}})
	const clients, each = 12, 50
	var wg sync.WaitGroup
	for i := range clients {
		partition := int32(i % 6)
		node, _ := s.Cluster().Leader("t", partition)
		c := dial(t, s.Addr(node))
		wg.Go(func() {
			for n := range int32(each) {
				b := batchSpec{at: time.Now().UnixMilli(), producer: protocol.ProducerID{ID: int64(i)}, sequence: n, values: []string{"x"}}.build()
				r := c.do(produce(-1, "t", partition, b), 12).(*protocol.ProduceResponse)
				assert.Equal(t, protocol.None, r.Topics[0].Partitions[0].ErrorCode)
			}
		})
	}
	wg.Wait()
	total := 0
	for _, records := range s.Cluster().AllRecords("t") {
		total += len(records)
	}
	assert.Equal(t, clients*each, total)
	s.Cluster().Check(t)
}
