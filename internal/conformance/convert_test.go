package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"github.com/kafka-reservoir/producer/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// theirName lists, for fields that the two implementations call differently, what kmsg may call ours.
var theirName = map[string][]string{
	"ThrottleTimeMs":              {"ThrottleMillis"},
	"TimeoutMs":                   {"TimeoutMillis"},
	"TransactionTimeoutMs":        {"TransactionTimeoutMillis"},
	"MaxWaitMs":                   {"MaxWaitMillis"},
	"LogAppendTimeMs":             {"LogAppendTime"},
	"TransactionalID":             {"TransactionID"},
	"Name":                        {"Topic"},
	"ID":                          {"TopicID"},
	"Index":                       {"Partition"},
	"PartitionIndex":              {"Partition"},
	"RecordErrors":                {"ErrorRecords"},
	"BatchIndex":                  {"RelativeOffset"},
	"BatchIndexErrorMessage":      {"ErrorMessage"},
	"NodeEndpoints":               {"Brokers"},
	"LeaderID":                    {"Leader"},
	"ReplicaNodes":                {"Replicas"},
	"IsrNodes":                    {"ISR"},
	"ClusterAuthorizedOperations": {"AuthorizedOperations"},
	"TopicAuthorizedOperations":   {"AuthorizedOperations"},
	"RackID":                      {"Rack"},
	"ReplicaID":                   {"ID"},
	"ReplicaEpoch":                {"Epoch"},
	"Records":                     {"RecordBatches"},
	"KeyType":                     {"CoordinatorType"},
}

// notOurs are fields of kmsg that have no counterpart: its own book-keeping, and fields of versions that
// this producer does not speak.
var notOurs = map[string]bool{"Version": true, "UnknownTags": true, "MaxNumOffsets": true, "OldStyleOffsets": true}

// field finds, in a struct of kmsg, the counterpart of one of our fields.
func field(theirs reflect.Value, ours string) (reflect.Value, string) {
	for _, name := range append([]string{ours}, theirName[ours]...) {
		if f := theirs.FieldByName(name); f.IsValid() {
			return f, name
		}
	}
	panic(fmt.Sprintf("%v has no %s", theirs.Type(), ours))
}

// copyFields copies between one of our structs and its counterpart: to kmsg's, or back. It panics when
// either has a field that the other has not.
func copyFields(ours, theirs reflect.Value, back bool) {
	used := map[string]bool{}
	copyInto(ours, theirs, back, used)
	for i := range theirs.NumField() {
		if name := theirs.Type().Field(i).Name; !used[name] && !notOurs[name] {
			panic(fmt.Sprintf("%v lacks %v.%s", ours.Type(), theirs.Type(), name))
		}
	}
}

// copyInto is copyFields, and notes which of kmsg's fields it found.
func copyInto(ours, theirs reflect.Value, back bool, used map[string]bool) {
	for i := range ours.NumField() {
		switch f := ours.Type().Field(i); {
		case !f.IsExported():
		case f.Type == reflect.TypeFor[*protocol.ProduceDetails](): // its fields stand beside the others there
			details := new(protocol.ProduceDetails)
			if !ours.Field(i).IsNil() {
				*details = *ours.Field(i).Interface().(*protocol.ProduceDetails)
			}
			copyInto(reflect.ValueOf(details).Elem(), theirs, back, used)
			if back && (len(details.RecordErrors) > 0 || details.ErrorMessage != nil) {
				ours.Field(i).Set(reflect.ValueOf(details))
			}
		default:
			other, name := field(theirs, f.Name)
			used[name] = true
			copyValue(ours.Field(i), other, back)
		}
	}
}

func copyValue(ours, theirs reflect.Value, back bool) {
	to, from := theirs, ours
	if back {
		to, from = ours, theirs
	}
	switch {
	case ours.Kind() == reflect.Struct:
		copyFields(ours, theirs, back)
	case ours.Kind() == reflect.Slice && ours.Type().Elem().Kind() == reflect.Struct:
		if from.IsNil() {
			to.SetZero()
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			copyFields(ours.Index(i), theirs.Index(i), back)
		}
	default:
		to.Set(from.Convert(to.Type()))
	}
}

// filler makes random values, edges more often than chance would.
type filler struct{ *rand.Rand }

func (f filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		// The values that mean "not there" are left out of the bytes, so they must come up.
		for _, none := range []any{protocol.NoLeader, protocol.NoEpochEndOffset, protocol.NoReplica} {
			if v.Type() == reflect.TypeOf(none) && f.IntN(3) == 0 {
				v.Set(reflect.ValueOf(none))
				return
			}
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(f.int(v.Type().Bits()))
	case reflect.Array: // topic id
		if f.IntN(4) > 0 {
			for i := range v.Len() {
				v.Index(i).SetUint(f.Uint64() & 0xff)
			}
		}
	case reflect.String:
		v.SetString(string(f.bytes()))
	case reflect.Pointer: // nullable string, or details
		if f.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		n := f.IntN(4)
		switch {
		case f.IntN(6) == 0:
			v.SetZero()
		case v.Type().Elem().Kind() == reflect.Uint8:
			v.SetBytes(f.bytes())
		default:
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i))
			}
		}
	default:
		panic(v.Type().String())
	}
}

func (f filler) int(bits int) int64 {
	switch f.IntN(6) {
	case 0:
		return -1
	case 1:
		return math.MaxInt64 >> (64 - bits)
	case 2:
		return math.MinInt64 >> (64 - bits)
	case 3:
		return 0
	}
	return int64(f.Uint64()) >> (64 - bits)
}

func (f filler) bytes() []byte {
	n := f.IntN(20)
	if f.IntN(10) == 0 {
		n = 126 + f.IntN(4) // where a compact length becomes two bytes
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + f.IntN(26))
	}
	return b
}

// addUnknownTags puts tagged fields that nobody knows into every struct of a message of kmsg.
func (f filler) addUnknownTags(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.addUnknownTags(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.addUnknownTags(v.Index(i))
		}
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			for range f.IntN(3) {
				tags.Set(uint32(100+f.IntN(1000)), f.bytes())
			}
			return
		}
		for i := range v.NumField() {
			f.addUnknownTags(v.Field(i))
		}
	}
}

// sameNulls makes empty slices nil, except where null and empty differ.
func sameNulls(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			sameNulls(v.Elem(), "")
		}
		if d, ok := v.Interface().(*protocol.ProduceDetails); ok && d != nil && len(d.RecordErrors) == 0 && d.ErrorMessage == nil {
			v.SetZero()
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			sameNulls(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		switch name {
		case "MetadataRequest.Topics", "FetchResponsePartition.AbortedTransactions", "FetchResponsePartition.Records", "ProduceRequestPartition.Records":
		default:
			if v.Len() == 0 {
				v.SetZero()
			}
		}
		for i := range v.Len() {
			sameNulls(v.Index(i), "")
		}
	}
}
