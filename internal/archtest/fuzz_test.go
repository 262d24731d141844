package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// fuzzed are the functions that make sense of bytes of a stranger, by file and function, and the fuzz targets that
// they run under. Messages are not listed: protocol has a test that holds each of them and every version.
var fuzzed = map[string][]string{
	"protocol/header.go:ReadResponseHeader":           {"protocol:FuzzResponseHeader"},
	"protocol/header.go:ReadRequestHeader":            {"protocol:FuzzRequestHeader"},
	"protocol/record_batch_reader.go:NewRecordReader": {"protocol:FuzzRecordBatch"},
	"protocol/record_batch_reader.go:ReadBatchHeader": {"protocol:FuzzRecordBatch"},
	"protocol/produce_response.go:ReadFrom":           {"protocol:FuzzProduceResponse", "protocol:FuzzProduceResponseReused"},
	"netclient/conn.go:next":                          {"netclient:FuzzFrameReader"},
	"netclient/dial.go:negotiate":                     {"netclient:FuzzSetup"},
	"netclient/dial.go:askCluster":                    {"netclient:FuzzSetup"},
	"netclient/versions.go:DecodeAPIVersions":         {"netclient:FuzzSetup"},
	"netclient/poll.go:received":                      {"netclient:FuzzAnswers"},
	"netclient/metadata.go:handleMetadata":            {"metadata:FuzzHandleResponse", "protocol:FuzzMetadataResponse"},
	"sender/produce.go:answer":                        {"protocol:FuzzProduceResponse", "sender:FuzzProduceAnswer"},
	"sender/sender.go:producerIDAnswered":             {"protocol:FuzzInitProducerIdResponse"},
	"internal/compress/decoder.go:Decompress":         {"internal/compress:FuzzDecompress"},
	"properties_file.go:parseProperties":              {".:FuzzParseProperties"},
}

// FC-129: nothing makes sense of a stranger's bytes that no fuzz target runs. A call of a decoder at a place that
// is not on the list fails here.
func TestEveryReaderOfForeignBytesIsFuzzed(t *testing.T) {
	decoders := []string{"ReadFrom", "ReadInPlace", "ReadResponseHeader"}
	targets := map[string]bool{}
	functions := map[string]bool{}
	for _, f := range load(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if f.test && strings.HasPrefix(fn.Name.Name, "Fuzz") {
					targets[f.pkg+":"+fn.Name.Name] = true
				}
				functions[f.path+":"+fn.Name.Name] = true
			}
		}
		if !isLibrary(f) || within(f.pkg, "protocol") {
			continue
		}
		f.inspect(func(where string, n ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(decoders, s.Sel.Name) && fuzzed[where] == nil {
				t.Errorf("%s calls %s and is not on the list of what is fuzzed", where, s.Sel.Name)
			}
		})
	}
	for _, where := range slices.Sorted(maps.Keys(fuzzed)) {
		if !functions[where] {
			t.Errorf("%s is on the list and does not exist", where)
		}
		for _, target := range fuzzed[where] {
			if !targets[target] {
				t.Errorf("%s: there is no fuzz target %s", where, target)
			}
		}
	}
}
