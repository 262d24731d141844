package producer_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kafka-reservoir/producer/internal/leak"
)

// TestMain looks, when all is done, for what producers outside of bubbles have left behind: each bubble's harness sees to its own.
func TestMain(m *testing.M) {
	code := m.Run()
	left := leak.Goroutines()
	for end := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(end); left = leak.Goroutines() {
		time.Sleep(time.Millisecond) // it is about to return, or it never will
	}
	if len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines left behind:\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = max(code, 1)
	}
	os.Exit(code)
}
