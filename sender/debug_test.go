package sender_test

import (
	"fmt"
	"os"
	"strings"
)

func (w *world) dump() {
	if os.Getenv("DUMP") == "" {
		return
	}
	for _, e := range w.Cluster.Journal(0) {
		fmt.Println(strings.ReplaceAll(e.String(), "\x00", ""))
	}
}
