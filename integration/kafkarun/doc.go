// Package kafkarun runs real Apache Kafka brokers on the loopback: Maven brings the jars, Java runs them.
//
// There is no Docker in it and nothing is installed. A release is fetched once into a cache folder
// (RESERVOIR_KAFKA_CACHE, by default ~/.cache/reservoir-kafka); a [Cluster] lives in a folder of its
// own, on ports chosen when it starts, and its processes die with the process that started them, even
// if that one is killed. Java 17 and Maven must be installed.
//
//	c, err := kafkarun.Start(ctx, kafkarun.Config{Version: "4.4.0", Nodes: 3})
//	…
//	defer c.Close()
//	c.Kill(1)                     // SIGKILL; Terminate for a clean stop
//	err = c.StartNode(ctx, 1)     // same port, same data
//	err = c.WaitInSync(ctx)       // every replica has caught up
//
// From 3.0 on brokers run as KRaft nodes that are broker and controller at once, older ones with a
// ZooKeeper which the cluster starts too. Tried with 4.4.0, 3.9.1, 2.8.2, 2.1.1, 1.1.1 and 0.11.0.3.
//
// The methods of a Cluster may be called from any goroutine, but a node must not be stopped and started
// at the same time.
package kafkarun
