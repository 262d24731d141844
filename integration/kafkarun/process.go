package kafkarun

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// process is one Java process with its log file.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string        // path of its standard output and error
	done chan struct{} // closed when it has ended and been reaped
	err  error         // how it ended; read it after done
}

// startProcess starts cmd with both outputs added to the file at log.
func startProcess(name, log string, cmd *exec.Cmd) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the child has its own descriptor
	cmd.Stdout, cmd.Stderr = f, f
	if err := StartTied(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	go func() { // ends when the process does; stop and the death of this process see to that
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// alive reports whether the process still runs.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends sig and waits until the process has ended.
func (p *process) signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // fails only if it has ended already
	<-p.done
}

// death is the error for a process that ended by itself.
func (p *process) death() error {
	text, _ := os.ReadFile(p.log)
	return fmt.Errorf("%s ended (%v); the end of %s:\n%s", p.name, p.err, p.log, tail(text, 15))
}

// logContains reports whether any of the phrases stands in the process's log.
func (p *process) logContains(phrases ...string) bool {
	text, _ := os.ReadFile(p.log)
	for _, s := range phrases {
		if bytes.Contains(text, []byte(s)) {
			return true
		}
	}
	return false
}

// tail is the last n lines of text.
func tail(text []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// starter runs functions on one thread that never ends. Linux ties a child to the *thread* that started
// it (PR_SET_PDEATHSIG), and Go ends threads as it likes: a broker started from an ordinary goroutine may
// be killed at any time.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() { // lives as long as the process
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// StartTied starts cmd so that it dies with this process, whatever this one dies of (on Linux; elsewhere
// the caller's own clean-up is all there is). It is in a process group of its own, so that an interrupt
// typed at the terminal reaches only this process, which then stops it in order.
func StartTied(cmd *exec.Cmd) error {
	tie(cmd)
	res := make(chan error)
	starter() <- func() { res <- cmd.Start() }
	return <-res
}
