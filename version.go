package producer

import "runtime/debug"

const modulePath = "github.com/kafka-reservoir/producer"

// version is the library's version as the build knows it, for ApiVersions (KIP-511).
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == modulePath {
				return m.Version
			}
		}
	}
	return "unknown"
}
