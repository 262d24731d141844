// Package java reads topics back with Kafka's own Java consumer, in the version of the broker.
//
// Reader.java beside it is run from its source against the release's jars; one JVM serves any number of
// topics. A test calls it from one goroutine.
package java

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kafka-reservoir/producer/integration/kafkarun"
	"github.com/kafka-reservoir/producer/integration/readback"
)

//go:embed Reader.java
var source []byte

// Reader is a running consumer.
type Reader struct {
	cmd    *exec.Cmd
	dir    string
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *bytes.Buffer // complete only once the process has ended
}

var _ readback.Reader = (*Reader)(nil)

// Start starts a consumer for the cluster.
func Start(c *kafkarun.Cluster) (_ *Reader, err error) {
	dir, err := os.MkdirTemp("", "kafkaread-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	file := filepath.Join(dir, "Reader.java")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", filepath.Join(c.Libs(), "*"), file, strings.Join(c.Bootstrap(), ","))
	r := &Reader{cmd: cmd, dir: dir, stderr: new(bytes.Buffer)}
	cmd.Stderr = r.stderr
	if r.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReaderSize(out, 1<<20)
	if err := kafkarun.StartTied(cmd); err != nil {
		return nil, fmt.Errorf("starting the Java consumer: %w", err)
	}
	return r, nil
}

// Name is the reader's name in reports.
func (*Reader) Name() string { return "java" }

// Read reads the topic from its beginning. When ctx ends the consumer is killed and the Reader is of no
// more use.
func (r *Reader) Read(ctx context.Context, topic string, each func(readback.Found)) error {
	stop := context.AfterFunc(ctx, func() { _ = r.cmd.Process.Kill() })
	defer stop()
	if _, err := fmt.Fprintln(r.in, topic); err != nil {
		return r.broken(ctx, topic, err)
	}
	for count := 0; ; count++ {
		line, err := r.out.ReadString('\n')
		if err != nil {
			return r.broken(ctx, topic, err)
		}
		line = strings.TrimSuffix(line, "\n")
		first, rest, _ := strings.Cut(line, " ")
		if first == "end" {
			if rest != strconv.Itoa(count) {
				return fmt.Errorf("java consumer: %s: got %d lines, it says %s", topic, count, rest)
			}
			return nil
		}
		second, _, _ := strings.Cut(rest, " ")
		partition, err1 := strconv.ParseInt(first, 10, 32)
		offset, err2 := strconv.ParseInt(second, 10, 64)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("java consumer: %s: line %q", topic, line)
		}
		each(readback.Found{Partition: int32(partition), Offset: offset, Line: line})
	}
}

// broken is the error for a consumer that went away, which it does when it throws.
func (r *Reader) broken(ctx context.Context, topic string, err error) error {
	_ = r.in.Close()
	_ = r.cmd.Process.Kill()
	wait := r.cmd.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("java consumer: reading %s: %w (%v)\n%s", topic, err, wait, r.stderr)
}

// Close ends the consumer.
func (r *Reader) Close() {
	_ = r.in.Close()
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait() // a second Wait, after broken, only fails
	_ = os.RemoveAll(r.dir)
}
