package kafkarun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// CacheEnv names the environment variable that says where releases are kept.
const CacheEnv = "RESERVOIR_KAFKA_CACHE"

// fetchTries is how often Maven is asked before a fetch fails: a cold cache is a hundred downloads, and
// one that is cut off should not cost a whole run.
const fetchTries = 3

// CacheDir is the folder that holds one sub-folder for each release fetched.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("kafka cache folder: %w (set %s)", err, CacheEnv)
	}
	return filepath.Join(home, ".cache", "reservoir-kafka"), nil
}

// Fetch brings the jars of a release into the cache, unless they are there, and returns the folder that
// holds them. Several processes may fetch at once: one does it, the others wait for it.
func Fetch(ctx context.Context, version string, logf func(format string, args ...any)) (string, error) {
	r, err := parseRelease(version)
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	// Layout: VERSION/libs holds the jars, VERSION/ok says that all of them are there.
	dir := filepath.Join(cache, version)
	libs, ok := filepath.Join(dir, "libs"), filepath.Join(dir, "ok")
	if exists(ok) {
		return libs, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("kafka cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("kafka cache folder: %w", err)
	}
	defer unlock()
	if exists(ok) {
		return libs, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", errors.New("fetching kafka needs Maven: install it (Debian: apt-get install maven)")
	}
	pom := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(pom, []byte(r.pom()), 0o644); err != nil {
		return "", fmt.Errorf("kafka cache folder: %w", err)
	}
	for try := 1; ; try++ {
		start := time.Now()
		logf("kafka %s: fetching with Maven", version)
		cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+libs)
		out, err := cmd.CombinedOutput()
		if err == nil {
			logf("kafka %s: fetched in %v", version, time.Since(start).Round(100*time.Millisecond))
			break
		}
		if try == fetchTries || ctx.Err() != nil {
			return "", fmt.Errorf("fetching kafka %s: mvn: %w\n%s", version, err, tail(out, 10))
		}
		logf("kafka %s: mvn: %v, trying again", version, err)
	}
	if err := os.WriteFile(ok, nil, 0o644); err != nil {
		return "", fmt.Errorf("kafka cache folder: %w", err)
	}
	return libs, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// pause waits for d or until ctx ends, whichever is first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
