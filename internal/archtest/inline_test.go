package archtest

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that calls Send or SendFunc has them inlined. What the compiler inlines is bounded: of a budget of 80, as go1.26 counts, Send takes 76.
func TestSendIsInlined(t *testing.T) {
	for pkg, call := range map[string]string{"async_callback": "SendFunc", "custom_serializer": "Send"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-cover=false", "-gcflags=-m", "-o", t.TempDir(), "./examples/"+pkg)
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Regexp(t, `inlining call to producer\.\(\*KafkaProducer\[.*\]\)\.`+call+`\b`, string(out), pkg)
	}
}
