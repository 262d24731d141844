import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.requests.*;

/**
 * Writes golden.txt: what Kafka's own message classes make of the values that golden_test.go has too, in
 * every version this package speaks. Run it, in this directory, with the jars of a Kafka 4.4 broker:
 *
 *     java -cp "$KAFKA/libs/*" Golden.java > golden.txt
 *     java -cp "$KAFKA/libs/*" Golden.java errors > errors.txt
 *
 * errors.txt is Kafka's table of error codes: code, name, retriable (R), invalidates metadata (M), text.
 */
public class Golden {
    static final Uuid ID = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L);

    public static void main(String[] args) {
        if (args.length > 0) {
            for (Errors e : Errors.values())
                System.out.println(e.code() + "\t" + e.name() + "\t" + (e.exception() instanceof RetriableException ? "R" : "-")
                    + "\t" + (e.exception() instanceof InvalidMetadataException ? "M" : "-") + "\t" + e.message());
            return;
        }
        for (short v = 0; v <= 5; v++) {
            ApiVersionsRequestData q = new ApiVersionsRequestData();
            if (v >= 3) q.setClientSoftwareName("reservoir").setClientSoftwareVersion("1.0.0");
            if (v >= 5) q.setClusterId("cluster").setNodeId(7);
            print("ApiVersionsRequest", v, q);

            ApiVersionsResponseData p = new ApiVersionsResponseData().setErrorCode((short) 0).setThrottleTimeMs(100);
            p.apiKeys().add(new ApiVersionsResponseData.ApiVersion().setApiKey((short) 0).setMinVersion((short) 3).setMaxVersion((short) 13));
            p.apiKeys().add(new ApiVersionsResponseData.ApiVersion().setApiKey((short) 999).setMinVersion((short) 1).setMaxVersion((short) 2));
            if (v >= 3) {
                p.supportedFeatures().add(new ApiVersionsResponseData.SupportedFeatureKey().setName("metadata.version").setMinVersion((short) 1).setMaxVersion((short) 25));
                p.setFinalizedFeaturesEpoch(42);
                p.finalizedFeatures().add(new ApiVersionsResponseData.FinalizedFeatureKey().setName("metadata.version").setMaxVersionLevel((short) 24).setMinVersionLevel((short) 23));
                p.setZkMigrationReady(true);
            }
            print("ApiVersionsResponse", v, p);
        }
        print("ApiVersionsResponse/unsupported", (short) 0, new ApiVersionsResponseData().setErrorCode(Errors.UNSUPPORTED_VERSION.code())
            .setApiKeys(new ApiVersionsResponseData.ApiVersionCollection(List.of(
                new ApiVersionsResponseData.ApiVersion().setApiKey((short) 18).setMinVersion((short) 0).setMaxVersion((short) 2)).iterator())));

        for (short v = 0; v <= 13; v++) {
            MetadataRequestData q = new MetadataRequestData().setTopics(new ArrayList<>());
            q.topics().add(new MetadataRequestData.MetadataRequestTopic().setName("orders"));
            if (v >= 12) q.topics().add(new MetadataRequestData.MetadataRequestTopic().setName(null).setTopicId(ID));
            q.setAllowAutoTopicCreation(v < 4);
            if (v >= 8 && v <= 10) q.setIncludeClusterAuthorizedOperations(true);
            if (v >= 8) q.setIncludeTopicAuthorizedOperations(true);
            print("MetadataRequest", v, q);
            print("MetadataRequest/all", v, new MetadataRequestData().setTopics(v == 0 ? List.of() : null));
            if (v >= 1) print("MetadataRequest/none", v, new MetadataRequestData().setTopics(List.of()));

            MetadataResponseData p = new MetadataResponseData().setThrottleTimeMs(5).setClusterId("cluster").setControllerId(2);
            p.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(1).setHost("a.example").setPort(9092).setRack("r1"));
            p.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(2).setHost("b.example").setPort(9093).setRack(null));
            MetadataResponseData.MetadataResponseTopic t = new MetadataResponseData.MetadataResponseTopic().setName("orders").setErrorCode((short) 0)
                .setTopicId(ID).setIsInternal(true);
            if (v >= 8) t.setTopicAuthorizedOperations(0x5f8);
            t.partitions().add(new MetadataResponseData.MetadataResponsePartition().setPartitionIndex(0).setLeaderId(1).setLeaderEpoch(9)
                .setReplicaNodes(List.of(1, 2)).setIsrNodes(List.of(1)).setOfflineReplicas(List.of(2)));
            t.partitions().add(new MetadataResponseData.MetadataResponsePartition().setErrorCode((short) 5).setPartitionIndex(1).setLeaderId(-1));
            p.topics().add(t);
            MetadataResponseData.MetadataResponseTopic unknown = new MetadataResponseData.MetadataResponseTopic().setErrorCode((short) 3).setName(v >= 12 ? null : "gone");
            p.topics().add(unknown);
            if (v >= 8 && v <= 10) p.setClusterAuthorizedOperations(0x1f00);
            if (v >= 13) p.setErrorCode((short) 129);
            print("MetadataResponse", v, p);
        }

        for (short v = 3; v <= 13; v++) {
            ProduceRequestData q = new ProduceRequestData().setTransactionalId("tx").setAcks((short) -1).setTimeoutMs(30000);
            q.topicData().add(new ProduceRequestData.TopicProduceData().setName(v <= 12 ? "orders" : "").setTopicId(v >= 13 ? ID : Uuid.ZERO_UUID).setPartitionData(List.of(
                new ProduceRequestData.PartitionProduceData().setIndex(3).setRecords(MemoryRecords.readableRecords(ByteBuffer.wrap("not a batch".getBytes(StandardCharsets.US_ASCII)))),
                new ProduceRequestData.PartitionProduceData().setIndex(4).setRecords(null))));
            print("ProduceRequest", v, q);

            ProduceResponseData p = new ProduceResponseData().setThrottleTimeMs(250);
            ProduceResponseData.PartitionProduceResponse ok = new ProduceResponseData.PartitionProduceResponse().setIndex(3).setBaseOffset(1L << 40);
            if (v >= 5) ok.setLogStartOffset(17);
            ProduceResponseData.PartitionProduceResponse bad = new ProduceResponseData.PartitionProduceResponse().setIndex(4).setErrorCode((short) 6)
                .setBaseOffset(-1).setLogAppendTimeMs(1700000000000L);
            if (v >= 8) bad.setErrorMessage("moved").setRecordErrors(List.of(
                new ProduceResponseData.BatchIndexAndErrorMessage().setBatchIndex(1).setBatchIndexErrorMessage("too old"),
                new ProduceResponseData.BatchIndexAndErrorMessage().setBatchIndex(2)));
            if (v >= 10) {
                bad.setCurrentLeader(new ProduceResponseData.LeaderIdAndEpoch().setLeaderId(2).setLeaderEpoch(10));
                p.nodeEndpoints().add(new ProduceResponseData.NodeEndpoint().setNodeId(2).setHost("b.example").setPort(9093).setRack("r2"));
                p.nodeEndpoints().add(new ProduceResponseData.NodeEndpoint().setNodeId(5).setHost("").setPort(0).setRack(null));
            }
            p.responses().add(new ProduceResponseData.TopicProduceResponse().setName(v <= 12 ? "orders" : "").setTopicId(v >= 13 ? ID : Uuid.ZERO_UUID).setPartitionResponses(List.of(ok, bad)));
            print("ProduceResponse", v, p);
        }

        for (short v = 0; v <= 5; v++) {
            InitProducerIdRequestData q = new InitProducerIdRequestData().setTransactionalId("tx").setTransactionTimeoutMs(60000);
            if (v >= 3) q.setProducerId(1234567890123L).setProducerEpoch((short) 7);
            print("InitProducerIdRequest", v, q);
            print("InitProducerIdRequest/new", v, new InitProducerIdRequestData().setTransactionalId(null).setTransactionTimeoutMs(Integer.MAX_VALUE));
            print("InitProducerIdResponse", v, new InitProducerIdResponseData().setThrottleTimeMs(1).setErrorCode((short) 51).setProducerId(1234567890123L).setProducerEpoch((short) 8));
        }

        for (short v = 1; v <= 11; v++) {
            ListOffsetsRequestData q = new ListOffsetsRequestData().setReplicaId(-1);
            if (v >= 2) q.setIsolationLevel((byte) 1);
            if (v >= 10) q.setTimeoutMs(1500);
            ListOffsetsRequestData.ListOffsetsPartition one = new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex(1).setTimestamp(-2);
            if (v >= 4) one.setCurrentLeaderEpoch(6);
            q.setTopics(List.of(new ListOffsetsRequestData.ListOffsetsTopic().setName("orders").setPartitions(List.of(one,
                new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex(2).setTimestamp(1700000000000L)))));
            print("ListOffsetsRequest", v, q);

            ListOffsetsResponseData p = new ListOffsetsResponseData().setThrottleTimeMs(v >= 2 ? 3 : 0);
            ListOffsetsResponseData.ListOffsetsPartitionResponse r = new ListOffsetsResponseData.ListOffsetsPartitionResponse()
                .setPartitionIndex(1).setErrorCode((short) 0).setTimestamp(1700000000001L).setOffset(99);
            if (v >= 4) r.setLeaderEpoch(6);
            p.setTopics(List.of(new ListOffsetsResponseData.ListOffsetsTopicResponse().setName("orders").setPartitions(List.of(r,
                new ListOffsetsResponseData.ListOffsetsPartitionResponse().setPartitionIndex(2).setErrorCode((short) 3)))));
            print("ListOffsetsResponse", v, p);
        }

        for (short v = 4; v <= 18; v++) {
            FetchRequestData q = new FetchRequestData().setMaxWaitMs(500).setMinBytes(1).setMaxBytes(1 << 20).setIsolationLevel((byte) 1);
            if (v >= 7) q.setSessionId(11).setSessionEpoch(12);
            if (v >= 11) q.setRackId("r1");
            if (v >= 12) q.setClusterId("cluster");
            if (v <= 14) q.setReplicaId(3); else q.setReplicaState(new FetchRequestData.ReplicaState().setReplicaId(3).setReplicaEpoch(4));
            FetchRequestData.FetchPartition f = new FetchRequestData.FetchPartition().setPartition(2).setFetchOffset(1000).setPartitionMaxBytes(65536);
            if (v >= 5) f.setLogStartOffset(10);
            if (v >= 9) f.setCurrentLeaderEpoch(6);
            if (v >= 12) f.setLastFetchedEpoch(5);
            if (v >= 17) f.setReplicaDirectoryId(ID);
            if (v >= 18) f.setHighWatermark(1001);
            q.setTopics(List.of(new FetchRequestData.FetchTopic().setTopic(v <= 12 ? "orders" : "").setTopicId(v >= 13 ? ID : Uuid.ZERO_UUID).setPartitions(List.of(f,
                new FetchRequestData.FetchPartition().setPartition(3).setFetchOffset(0).setPartitionMaxBytes(1)))));
            if (v >= 7) q.setForgottenTopicsData(List.of(new FetchRequestData.ForgottenTopic().setTopic(v <= 12 ? "old" : "").setTopicId(v >= 13 ? ID : Uuid.ZERO_UUID).setPartitions(List.of(1, 2))));
            print("FetchRequest", v, q);

            FetchResponseData p = new FetchResponseData().setThrottleTimeMs(2);
            if (v >= 7) p.setErrorCode((short) 71).setSessionId(11);
            FetchResponseData.PartitionData d = new FetchResponseData.PartitionData().setPartitionIndex(2).setErrorCode((short) 1).setHighWatermark(1002).setLastStableOffset(1001)
                .setAbortedTransactions(List.of(new FetchResponseData.AbortedTransaction().setProducerId(77).setFirstOffset(990)))
                .setRecords(MemoryRecords.readableRecords(ByteBuffer.wrap("not a batch".getBytes(StandardCharsets.US_ASCII))));
            if (v >= 5) d.setLogStartOffset(10);
            if (v >= 11) d.setPreferredReadReplica(4);
            if (v >= 12) {
                d.setDivergingEpoch(new FetchResponseData.EpochEndOffset().setEpoch(5).setEndOffset(900));
                d.setCurrentLeader(new FetchResponseData.LeaderIdAndEpoch().setLeaderId(2).setLeaderEpoch(10));
                d.setSnapshotId(new FetchResponseData.SnapshotId().setEndOffset(800).setEpoch(4));
            }
            if (v >= 16) p.nodeEndpoints().add(new FetchResponseData.NodeEndpoint().setNodeId(2).setHost("b.example").setPort(9093).setRack("r2"));
            p.setResponses(List.of(new FetchResponseData.FetchableTopicResponse().setTopic(v <= 12 ? "orders" : "").setTopicId(v >= 13 ? ID : Uuid.ZERO_UUID).setPartitions(List.of(d,
                new FetchResponseData.PartitionData().setPartitionIndex(3).setHighWatermark(0).setAbortedTransactions(null).setRecords(null)))));
            print("FetchResponse", v, p);
        }

        for (short v = 0; v <= 6; v++) {
            FindCoordinatorRequestData q = new FindCoordinatorRequestData();
            if (v >= 1) q.setKeyType((byte) 1);
            if (v <= 3) q.setKey("group"); else q.setCoordinatorKeys(List.of("group", "other"));
            print("FindCoordinatorRequest", v, q);
            FindCoordinatorResponseData p = new FindCoordinatorResponseData().setThrottleTimeMs(v >= 1 ? 4 : 0);
            if (v <= 3) p.setErrorCode((short) 15).setErrorMessage(v >= 1 ? "not yet" : null).setNodeId(-1).setHost("").setPort(-1);
            else p.setCoordinators(List.of(
                new FindCoordinatorResponseData.Coordinator().setKey("group").setNodeId(1).setHost("a.example").setPort(9092).setErrorMessage(null),
                new FindCoordinatorResponseData.Coordinator().setKey("other").setErrorCode((short) 15).setErrorMessage("not yet").setNodeId(-1).setPort(-1)));
            print("FindCoordinatorResponse", v, p);
        }

        print("RecordBatch/plain", 2, MemoryRecords.withRecords(Compression.NONE,
            new org.apache.kafka.common.record.internal.SimpleRecord(1700000000000L, "key".getBytes(StandardCharsets.UTF_8), "value".getBytes(StandardCharsets.UTF_8))).buffer());
        print("RecordBatch/transactional", 2, batch(TimestampType.CREATE_TIME, true));
        print("RecordBatch/logAppendTime", 2, batch(TimestampType.LOG_APPEND_TIME, false));

        // Headers, as the client builds and reads them.
        for (Object[] h : new Object[][] {{ApiKeys.PRODUCE, 8}, {ApiKeys.PRODUCE, 9}, {ApiKeys.METADATA, 8}, {ApiKeys.METADATA, 9}, {ApiKeys.API_VERSIONS, 2},
                {ApiKeys.API_VERSIONS, 3}, {ApiKeys.INIT_PRODUCER_ID, 1}, {ApiKeys.INIT_PRODUCER_ID, 2}, {ApiKeys.FETCH, 11}, {ApiKeys.FETCH, 12},
                {ApiKeys.LIST_OFFSETS, 5}, {ApiKeys.LIST_OFFSETS, 6}, {ApiKeys.FIND_COORDINATOR, 2}, {ApiKeys.FIND_COORDINATOR, 3}}) {
            ApiKeys key = (ApiKeys) h[0];
            short v = ((Integer) h[1]).shortValue();
            RequestHeaderData d = new RequestHeader(key, v, "client", 77).data();
            print("RequestHeader/" + key.id, v, d, key.requestHeaderVersion(v));
            d.setClientId(null);
            print("RequestHeader/" + key.id + "/anonymous", v, d, key.requestHeaderVersion(v));
            print("ResponseHeader/" + key.id, v, new ResponseHeaderData().setCorrelationId(77), key.responseHeaderVersion(v));
        }
    }

    /** Three records: full, all null, empty and older; sequences that wrap. */
    static ByteBuffer batch(TimestampType type, boolean transactional) {
        MemoryRecordsBuilder b = MemoryRecords.builder(ByteBuffer.allocate(1024), (byte) 2, Compression.NONE, type, 0, 1700000000005L, 77, (short) 3,
            Integer.MAX_VALUE, transactional, -1);
        b.append(1700000000000L, "key".getBytes(StandardCharsets.UTF_8), "value".getBytes(StandardCharsets.UTF_8), new Header[] {
            new RecordHeader("trace", new byte[] {1, 2, 3}), new RecordHeader("trace", (byte[]) null), new RecordHeader("", new byte[0])});
        b.append(1700000000005L, null, (byte[]) null, new Header[0]);
        b.append(1699999999000L, new byte[0], new byte[200], new Header[0]);
        return b.build().buffer();
    }

    static void print(String name, short v, Message m) { print(name, v, m, v); }

    static void print(String name, short v, Message m, short as) {
        print(name, v, MessageUtil.toByteBufferAccessor(m, as).buffer());
    }

    static void print(String name, int v, ByteBuffer b) {
        StringBuilder s = new StringBuilder();
        while (b.hasRemaining()) s.append(String.format("%02x", b.get()));
        System.out.println(name + " " + v + " " + s);
    }
}
