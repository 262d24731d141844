package protocol

// The kinds of coordinator in a [FindCoordinatorRequest].
const (
	CoordinatorGroup       int8 = 0
	CoordinatorTransaction int8 = 1
	CoordinatorShare       int8 = 2
)

// FindCoordinatorRequest asks which broker coordinates a group or a transactional id.
type FindCoordinatorRequest struct {
	KeyName         string   // the schema's Key, to v3
	KeyType         int8     // v1
	CoordinatorKeys []string // v4
}

// FindCoordinatorResponse is the answer to [FindCoordinatorRequest].
type FindCoordinatorResponse struct {
	ThrottleTimeMs int32         // v1
	ErrorCode      ErrorCode     // to v3
	ErrorMessage   *string       // v1 to v3
	NodeID         int32         // to v3
	Host           string        // to v3
	Port           int32         // to v3
	Coordinators   []Coordinator // v4
}

// Coordinator is the answer for one key of a batched [FindCoordinatorRequest].
type Coordinator struct {
	Key          string
	NodeID       int32
	Host         string
	Port         int32
	ErrorCode    ErrorCode
	ErrorMessage *string
}
