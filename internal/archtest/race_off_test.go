//go:build !race

package archtest

const raceBuild = false
