module github.com/kafka-reservoir/producer/internal/conformance

go 1.26.0

require (
	github.com/kafka-reservoir/producer v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/kafka-reservoir/producer => ../..
