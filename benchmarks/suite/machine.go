package suite

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine describes this one, as far as it tells.
func machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		parts[0] += " (" + model + ")"
	}
	var kib int
	if _, err := fmt.Sscan(field("/proc/meminfo", "MemTotal"), &kib); err == nil {
		parts = append(parts, fmt.Sprintf("%d GiB", (kib+1<<19)>>20))
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	parts = append(parts, strings.TrimSpace(runtime.GOOS+"/"+runtime.GOARCH+" "+string(kernel)))
	return strings.Join(parts, ", ")
}

// field is what stands behind the first "name:" of a file of the kernel's.
func field(path, name string) string {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is the library's, since its module is used as it lies beside this one.
func commit() string {
	git := func(args ...string) string {
		out, _ := exec.Command("git", args...).Output()
		return strings.TrimSpace(string(out))
	}
	c := git("rev-parse", "--short=10", "HEAD")
	switch {
	case c == "":
		return "working copy"
	case git("status", "--porcelain", "--untracked-files=no") != "":
		return "commit " + c + ", changed"
	}
	return "commit " + c
}

// busySeconds is the CPU time that all processes of this machine have used, or 0 where the kernel does not tell.
func busySeconds() float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var cpu string
	var user, nice, system, idle, iowait, irq, softirq, steal float64
	if _, err := fmt.Sscan(string(b), &cpu, &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	const ticks = 100 // USER_HZ, on all machines that Go runs on
	return (user + nice + system + irq + softirq + steal) / ticks
}
