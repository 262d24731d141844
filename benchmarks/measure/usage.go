package measure

import "time"

// usage is the CPU time of this process, all its threads, in user mode and in the kernel.
type usage struct{ user, system time.Duration }
