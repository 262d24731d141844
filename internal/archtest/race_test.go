package archtest

import (
	"os"
	"testing"
)

// A run that believes to look for races sets EXPECT_RACE=1; this fails where the build is none (cgo missing, a flag
// lost in a script), so that the race detector cannot be lost unnoticed.
func TestRaceBuildReallyIsOne(t *testing.T) {
	if os.Getenv("EXPECT_RACE") != "" && !raceBuild {
		t.Error("EXPECT_RACE is set, but this is not a race build")
	}
}
