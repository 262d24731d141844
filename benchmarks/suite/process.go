package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/kafka-reservoir/producer/benchmarks/measure"
	"github.com/kafka-reservoir/producer/benchmarks/sink"
)

// The program starts itself again for each client and each sink, with one of these as its first argument and what it shall
// do as JSON in the second.
const (
	clientCommand = "client-process"
	sinkCommand   = "sink-process"
)

// answer is what a client's process prints.
type answer struct {
	Result  measure.Result `json:"result"`
	Problem string         `json:"problem,omitempty"`
}

// Child does what a process that was started by this package is there for. It reports whether this is one.
func Child(args []string, in io.Reader, out io.Writer) (bool, error) {
	if len(args) != 2 {
		return false, nil
	}
	switch args[0] {
	case clientCommand:
		return true, clientProcess([]byte(args[1]), out)
	case sinkCommand:
		return true, sinkProcess([]byte(args[1]), in, out)
	}
	return false, nil
}

func clientProcess(arg []byte, out io.Writer) error {
	var job measure.Job
	if err := json.Unmarshal(arg, &job); err != nil {
		return err
	}
	result, err := measure.Run(job)
	a := answer{Result: result}
	if err != nil {
		a.Problem = err.Error()
	}
	return json.NewEncoder(out).Encode(a)
}

// sinkProcess prints its addresses, takes records until in ends, which it does with whoever started it, and then prints
// what it was sent.
func sinkProcess(arg []byte, in io.Reader, out io.Writer) error {
	var cfg sink.Config
	if err := json.Unmarshal(arg, &cfg); err != nil {
		return err
	}
	s, err := sink.Start(cfg)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(s.Addrs()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(s.Stats())
}

// self is a command that starts this program again.
func self(ctx context.Context, command string, arg any) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(arg)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, path, command, string(b)), nil
}

// cpuSeconds is what a process that has ended used, with those that it waited for.
func cpuSeconds(s *os.ProcessState) float64 { return (s.UserTime() + s.SystemTime()).Seconds() }

// runClient runs one client in a process of its own and returns what it took, and what the whole process took.
func runClient(ctx context.Context, job measure.Job) (measure.Result, float64, error) {
	cmd, err := self(ctx, clientCommand, job)
	if err != nil {
		return measure.Result{}, 0, err
	}
	if job.Workload.Procs > 0 {
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", job.Workload.Procs))
	}
	out, stderr, err := output(cmd)
	cpu := 0.0
	if cmd.ProcessState != nil {
		cpu = cpuSeconds(cmd.ProcessState)
	}
	if err != nil {
		return measure.Result{}, cpu, fmt.Errorf("%w%s", err, quoted(stderr))
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		return measure.Result{}, cpu, fmt.Errorf("the client's process printed %q", out)
	}
	if a.Problem != "" {
		return a.Result, cpu, errors.New(a.Problem)
	}
	return a.Result, cpu, nil
}

// output runs a command and returns what it printed. When ctx ends it is why the command did.
func output(cmd *exec.Cmd) (stdout, stderr []byte, err error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.Bytes(), errs.Bytes(), err
}

// quoted is the end of what a command said, to be put behind an error.
func quoted(stderr []byte) string {
	lines := strings.Split(strings.TrimSpace(string(stderr)), "\n")
	last := strings.Join(lines[max(len(lines)-3, 0):], " | ")
	if last == "" {
		return ""
	}
	return ": " + last
}
