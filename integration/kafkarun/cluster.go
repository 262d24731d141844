package kafkarun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// startTimeout bounds one start of a node, the time in which an old ZooKeeper entry expires included.
const startTimeout = 2 * time.Minute

// stopTimeout is how long a node may take for a clean stop.
const stopTimeout = time.Minute

// Config says what to start. Only Version is required.
type Config struct {
	Version string // such as 4.4.0 or 0.11.0.3
	Nodes   int    // 1 to 3; zero means 1. Three nodes replicate threefold, with min.insync.replicas 2

	// Dir holds data and logs. Empty means a temporary folder that Close removes.
	Dir string
	// Properties are added to each node's server.properties, or replace what stands there.
	Properties map[string]string
	// Heap bounds a broker's Java heap, as Java's -Xmx takes it. Empty means 512m.
	Heap string
	// Logf is told of progress. Nil means nobody.
	Logf func(format string, args ...any)
}

// Cluster is a running cluster.
type Cluster struct {
	cfg     Config
	release release
	dir     string
	libs    string   // folder of the release's jars
	java    []string // command line of a JVM, up to the main class, less the heap
	zkPort  int
	nodes   []*node

	mu        sync.Mutex // guards the processes below and those of the nodes, never held while waiting for one
	zooKeeper *process
	closed    bool
}

// node is one broker.
type node struct {
	id                                 int
	dir                                string
	port, internalPort, controllerPort int
	proc                               *process // nil while it is down; guarded by Cluster.mu
}

// Start fetches the release if need be, starts all nodes and returns when every one of them takes
// requests and knows all others. The context bounds the start only.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	r, err := parseRelease(cfg.Version)
	if err != nil {
		return nil, err
	}
	if cfg.Nodes == 0 {
		cfg.Nodes = 1
	}
	if cfg.Nodes < 1 || cfg.Nodes > 3 {
		return nil, fmt.Errorf("kafka cluster of %d nodes: want 1 to 3", cfg.Nodes)
	}
	if cfg.Heap == "" {
		cfg.Heap = "512m"
	}
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.New("running kafka needs Java 17: install it (Debian: apt-get install openjdk-17-jdk-headless)")
	}
	libs, err := Fetch(ctx, cfg.Version, cfg.Logf)
	if err != nil {
		return nil, err
	}
	// Ports are free when they are chosen, which says nothing of a second later.
	for try := 1; ; try++ {
		c, err := start(ctx, cfg, r, java, libs)
		if !errors.Is(err, errPortTaken) || try == 3 {
			return c, err
		}
		cfg.Logf("kafka %s: %v, trying other ports", cfg.Version, err)
	}
}

// errPortTaken means that a node could not listen on its port.
var errPortTaken = errors.New("port taken by another process")

func start(ctx context.Context, cfg Config, r release, java, libs string) (_ *Cluster, err error) {
	begin := time.Now()
	c := &Cluster{cfg: cfg, release: r, libs: libs}
	if c.dir, err = workDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("kafka cluster's folder: %w", err)
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	ports, err := freePorts(3*cfg.Nodes + 1)
	if err != nil {
		return nil, err
	}
	c.zkPort = ports[0]
	for i := range cfg.Nodes {
		c.nodes = append(c.nodes, &node{
			id:             i,
			dir:            filepath.Join(c.dir, "node"+strconv.Itoa(i)),
			port:           ports[1+3*i],
			internalPort:   ports[2+3*i],
			controllerPort: ports[3+3*i],
		})
	}
	logging, err := writeLogging(c.dir)
	if err != nil {
		return nil, err
	}
	// The first compiler alone starts a broker in less than half the CPU, and what it makes is fast enough here.
	c.java = append([]string{java, "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"}, logging...)
	c.java = append(c.java, "-cp", filepath.Join(libs, "*"))

	if !r.kraft() {
		if err := c.startZooKeeper(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.startNodes(ctx); err != nil {
		return nil, err
	}
	cfg.Logf("kafka %s: %d node(s) up in %v, %v", cfg.Version, cfg.Nodes, time.Since(begin).Round(100*time.Millisecond), c.Bootstrap())
	return c, nil
}

func workDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "kafkarun-")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// command is a JVM that runs a main class of the release.
func (c *Cluster) command(ctx context.Context, heap, class string, args ...string) *exec.Cmd {
	full := append([]string{"-Xmx" + heap}, c.java[1:]...)
	full = append(append(full, class), args...)
	return exec.CommandContext(ctx, c.java[0], full...)
}

// format writes the node's configuration and, for KRaft, prepares its log folder.
func (c *Cluster) format(ctx context.Context, n *node) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return fmt.Errorf("kafka cluster's folder: %w", err)
	}
	if err := writeProperties(n.properties(), c.brokerProperties(n.id)); err != nil {
		return fmt.Errorf("kafka cluster's folder: %w", err)
	}
	if !c.release.kraft() {
		return nil
	}
	cmd := c.command(ctx, "128m", "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.properties())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("formatting the folder of kafka node %d: %w\n%s", n.id, err, tail(out, 10))
	}
	return nil
}

func (n *node) properties() string { return filepath.Join(n.dir, "server.properties") }
func (n *node) name() string       { return fmt.Sprintf("kafka node %d", n.id) }

// launch starts a process of the cluster and hands it to keep with c.mu held.
func (c *Cluster) launch(name, log string, cmd *exec.Cmd, keep func(*process)) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("kafka cluster is closed")
	}
	p, err := startProcess(name, log, cmd)
	if err == nil {
		keep(p)
	}
	return p, err
}

// startZooKeeper starts the one ZooKeeper and waits until it answers.
func (c *Cluster) startZooKeeper(ctx context.Context) error {
	dir := filepath.Join(c.dir, "zookeeper")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cfg := filepath.Join(dir, "zoo.properties")
	if err := writeProperties(cfg, c.zooKeeperProperties()); err != nil {
		return err
	}
	// Not bound to ctx, which ends with the start: Close and this process's death end it.
	cmd := c.command(context.WithoutCancel(ctx), "128m", "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg)
	p, err := c.launch("zookeeper", filepath.Join(dir, "log"), cmd, func(p *process) { c.zooKeeper = p })
	if err != nil {
		return err
	}
	return c.await(ctx, p, func(context.Context) error { return zooKeeperAnswers(address(c.zkPort)) })
}

// startNodes starts all nodes at once: KRaft nodes need each other to become ready. The first error ends it.
func (c *Cluster) startNodes(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, n := range c.nodes {
		all.Go(func() {
			err := c.format(ctx, n)
			if err == nil {
				err = c.startNode(ctx, n, c.nodes)
			}
			if err != nil {
				cancel(err) // the first one counts
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// startNode starts n and waits until it takes requests and knows the nodes of want.
func (c *Cluster) startNode(ctx context.Context, n *node, want []*node) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	log := filepath.Join(n.dir, "log")
	for {
		_ = os.Remove(log + ".last")
		_ = os.Rename(log, log+".last")
		cmd := c.command(context.WithoutCancel(ctx), c.cfg.Heap, "kafka.Kafka", n.properties())
		p, err := c.launch(n.name(), log, cmd, func(p *process) { n.proc = p })
		if err != nil {
			return err
		}
		err = c.await(ctx, p, func(ctx context.Context) error { return brokerKnows(ctx, n, want) })
		switch {
		case err == nil:
			return nil
		case p.alive():
			return err
		case p.logContains("Address already in use"):
			return fmt.Errorf("%w: %v", errPortTaken, err)
		case !p.logContains("NodeExists", "already registered"):
			return err
		}
		// A ZooKeeper broker that was killed is still registered until its session ends, and the new
		// one then gives up at once.
		c.cfg.Logf("%s: its old ZooKeeper session has not ended yet, trying again", n.name())
		if err := pause(ctx, 2*time.Second); err != nil {
			return fmt.Errorf("starting %s: %w", n.name(), err)
		}
	}
}

// await calls ready until it returns nil, the process dies or ctx ends.
func (c *Cluster) await(ctx context.Context, p *process, ready func(context.Context) error) error {
	for {
		rctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ready(rctx)
		cancel()
		if !p.alive() {
			return p.death()
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			text, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s is not ready: %w (%v); the end of %s:\n%s", p.name, err, ctx.Err(), p.log, tail(text, 15))
		}
		_ = pause(ctx, 100*time.Millisecond)
	}
}

// StartNode starts a node that was killed or stopped, with its old port and data, and waits until it
// takes requests.
func (c *Cluster) StartNode(ctx context.Context, id int) error {
	n, err := c.node(id)
	if err != nil {
		return err
	}
	if p := c.process(n); p != nil && p.alive() {
		return fmt.Errorf("%s runs already", n.name())
	}
	begin := time.Now()
	if err := c.startNode(ctx, n, []*node{n}); err != nil {
		return err
	}
	c.cfg.Logf("%s: up again in %v", n.name(), time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// Kill ends a node as a power cut does (SIGKILL) and waits until it is gone.
func (c *Cluster) Kill(id int) error { return c.stop(id, syscall.SIGKILL) }

// Terminate stops a node in order (SIGTERM), its leaders being moved first, and waits until it is gone.
// One that takes longer than a minute is killed, which is an error.
func (c *Cluster) Terminate(id int) error { return c.stop(id, syscall.SIGTERM) }

func (c *Cluster) stop(id int, sig syscall.Signal) error {
	n, err := c.node(id)
	if err != nil {
		return err
	}
	p := c.process(n)
	if p == nil || !p.alive() {
		return fmt.Errorf("%s is down already", n.name())
	}
	begin := time.Now()
	hung := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() })
	p.signal(sig)
	if !hung.Stop() {
		return fmt.Errorf("%s did not stop within %v of %v and was killed", n.name(), stopTimeout, sig)
	}
	c.cfg.Logf("%s: %v, gone after %v", n.name(), sig, time.Since(begin).Round(100*time.Millisecond))
	return nil
}

func (c *Cluster) node(id int) (*node, error) {
	if id < 0 || id >= len(c.nodes) {
		return nil, fmt.Errorf("kafka node %d: the cluster has nodes 0 to %d", id, len(c.nodes)-1)
	}
	return c.nodes[id], nil
}

func (c *Cluster) process(n *node) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.proc
}

// Close kills what runs and removes the cluster's folder, unless the Config named it.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	var running []*process
	for _, n := range c.nodes {
		if n.proc != nil {
			running = append(running, n.proc)
		}
	}
	if c.zooKeeper != nil {
		running = append(running, c.zooKeeper)
	}
	c.mu.Unlock()
	for _, p := range running {
		_ = p.cmd.Process.Kill()
	}
	for _, p := range running {
		<-p.done
	}
	if c.cfg.Dir == "" {
		_ = os.RemoveAll(c.dir)
	}
}

// Version is the release that runs.
func (c *Cluster) Version() string { return c.cfg.Version }

// AtLeast reports whether the release is major.minor or later.
func (c *Cluster) AtLeast(major, minor int) bool { return c.release.atLeast(major, minor) }

// Nodes is the number of nodes, those that are down included.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Libs is the folder of the release's jars, Kafka's own Java clients among them.
func (c *Cluster) Libs() string { return c.libs }

// Dir is the folder that holds data and logs.
func (c *Cluster) Dir() string { return c.dir }

// Bootstrap lists the addresses of all nodes.
func (c *Cluster) Bootstrap() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = address(n.port)
	}
	return addrs
}
