package netclient

import (
	"log/slog"
	"time"

	"github.com/kafka-reservoir/producer/protocol"
)

// The declarations; bodies follow.

type Config struct {
	ClientID                                          string
	RequestTimeout                                    time.Duration
	MaxInFlight                                       int
	ReconnectBackoff, ReconnectBackoffMax             time.Duration
	ConnectionSetupTimeout, ConnectionSetupTimeoutMax time.Duration
	ConnectionsMaxIdle                                time.Duration // the client closes idle connections itself, the selector need not
	Rand                                              func(n int) int
	Logger                                            *slog.Logger
	ConnectDone                                       func(node protocol.Node, took time.Duration, err error)
	RequestDone                                       func(node int32, api protocol.APIKey, version int16, written, read int, took time.Duration, err error)
	Throttled                                         func(node int32, d time.Duration)
}

type Handler interface {
	HandleResponse(r *Response)
	HandleReleased()
}

type Request struct {
	Node          int32
	API           protocol.APIKey
	Version       int16
	CorrelationID int32
	Frame         protocol.Frame
	Timeout       time.Duration
	NoResponse    bool
	Handler       Handler
}

type Response struct {
	Node          int32
	API           protocol.APIKey
	Version       int16
	CorrelationID int32
	Body          []byte
	Err           error
	Written       bool
	SentAt, Now   time.Time
}

type MetadataUpdater interface {
	Nodes() []protocol.Node
	TimeToUpdate(now time.Time) time.Duration
	NewRequest(now time.Time) *protocol.MetadataRequest
	HandleResponse(version int16, resp *protocol.MetadataResponse, now time.Time) error
	HandleFailure(err error, now time.Time)
	HandleDisconnect(err error)
	SetFatal(err error)
	Rebootstrap(now time.Time, force bool) bool
}

type NetworkClient struct{}

func New(cfg Config, sel Selector, md MetadataUpdater) *NetworkClient { panic("stub") }

func (c *NetworkClient) NextCorrelationID() int32 { panic("stub") }
func (c *NetworkClient) Version(node int32, key protocol.APIKey, minVersion, maxVersion int16) (int16, error) {
	panic("stub")
}
func (c *NetworkClient) Ready(node protocol.Node, now time.Time) bool { panic("stub") }
func (c *NetworkClient) CanSend(node int32, now time.Time) bool       { panic("stub") }
func (c *NetworkClient) Send(r Request, now time.Time)                { panic("stub") }
func (c *NetworkClient) SendMessage(node int32, m protocol.Message, minVersion, maxVersion int16, h func(*Response), now time.Time) error {
	panic("stub")
}
func (c *NetworkClient) InFlightCount(node int32) int                        { panic("stub") }
func (c *NetworkClient) InFlight() int                                       { panic("stub") }
func (c *NetworkClient) LeastLoaded(now time.Time) (protocol.Node, bool)     { panic("stub") }
func (c *NetworkClient) PollDelay(node int32, now time.Time) time.Duration   { panic("stub") }
func (c *NetworkClient) Throttle(node int32, d time.Duration, now time.Time) { panic("stub") }
func (c *NetworkClient) Disconnect(node int32, why error, now time.Time)     { panic("stub") }
func (c *NetworkClient) LastError(node int32) error                          { panic("stub") } // why the node's last connection, or attempt, ended
func (c *NetworkClient) FinalizedFeature(name string) (level int16, ok bool) { panic("stub") }
func (c *NetworkClient) Poll(now time.Time, timeout time.Duration) time.Time { panic("stub") }
func (c *NetworkClient) Wakeup()                                             { panic("stub") }
func (c *NetworkClient) Close()                                              { panic("stub") }
