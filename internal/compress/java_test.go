package compress

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-reservoir/producer/protocol"
)

// javaText is the text of which testdata/java holds the compressed forms, made by the same steps in Java.
func javaText(n int) []byte {
	state := int64(1)
	next := func() int {
		state ^= state << 13
		state ^= int64(uint64(state) >> 7)
		state ^= state << 17
		return int(uint32(uint64(state)>>32) & 0x7fffffff)
	}
	words := []string{"order", "customer", "created", "shipped", `"amount":`, "{", "}", ",", "2026-08-21T", "eu-west"}
	var b []byte
	for len(b) < n {
		b = append(b, words[next()%len(words)]...)
		if next()%16 == 0 {
			b = strconv.AppendInt(b, int64(next()), 10)
		}
	}
	return b[:n]
}

// EXT-09, FC-044, FC-045: what Java's producer writes is read here. (The other direction, Java reading what is
// written here, needs Java: the integration tests read back every codec with Kafka's consumer.)
func TestJavaWritesWeRead(t *testing.T) {
	files, err := filepath.Glob("testdata/java/*.bin")
	require.NoError(t, err)
	require.Len(t, files, 13)
	codecs := map[string]protocol.Codec{}
	for _, c := range codecsWithData {
		codecs[c.String()] = c
	}
	text := javaText(70_000)
	for _, file := range files {
		parts := strings.Split(strings.TrimSuffix(filepath.Base(file), ".bin"), "-")
		n, err := strconv.Atoi(parts[len(parts)-1])
		require.NoError(t, err)
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		got, err := Decompress(codecs[parts[0]], nil, src, 70_000)
		require.NoError(t, err, file)
		assert.Equal(t, string(text[:n]), string(got), file)
	}
}

// EXT-09: where the format leaves no choice the bytes are Java's.
func TestSameBytesAsJava(t *testing.T) {
	for _, name := range []string{"snappy-0", "snappy-1", "lz4-0", "lz4-1", "zstd-0"} {
		want, err := os.ReadFile("testdata/java/" + name + ".bin")
		require.NoError(t, err)
		n, _ := strconv.Atoi(name[len(name)-1:])
		for _, c := range codecsWithData {
			if strings.HasPrefix(name, c.String()) {
				got := compressed(t, newCompressor(t, c, DefaultLevel), [][]byte{javaText(1)[:n]})
				assert.Equal(t, want, got, name)
			}
		}
	}
}
