import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics with Kafka's own consumer and prints each record as one line (package readback says how it is made).
 *
 * java -cp 'libs/*' Reader.java BOOTSTRAP
 *
 * Each line on standard input names a topic; the answer is one line for each of its records, in order within a
 * partition, then "end COUNT". One source serves the clients of 0.11 to 4.x: poll is found by reflection, because
 * poll(long) is gone in the new ones and poll(Duration) missing in the old.
 */
public class Reader {
    private static final int HEX_UP_TO = 128;
    private static final char[] HEX = "0123456789abcdef".toCharArray();

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Method poll;
    private final Object pollTime;
    private final MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
    private final PrintStream out;

    private Reader(String bootstrap, PrintStream out) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("enable.auto.commit", "false");
        p.put("check.crcs", "true");
        p.put("max.poll.records", "5000");
        consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Method m;
        Object t;
        try {
            m = KafkaConsumer.class.getMethod("poll", Duration.class);
            t = Duration.ofMillis(500);
        } catch (NoSuchMethodException old) {
            m = KafkaConsumer.class.getMethod("poll", long.class);
            t = 500L;
        }
        poll = m;
        pollTime = t;
        this.out = out;
    }

    @SuppressWarnings("unchecked")
    private void read(String topic) throws Exception {
        List<TopicPartition> all = new ArrayList<>();
        for (PartitionInfo p : consumer.partitionsFor(topic)) {
            all.add(new TopicPartition(topic, p.partition()));
        }
        consumer.assign(all);
        consumer.seekToBeginning(all);
        Map<TopicPartition, Long> ends = consumer.endOffsets(all);
        long count = 0;
        StringBuilder line = new StringBuilder();
        while (!done(ends)) {
            ConsumerRecords<byte[], byte[]> records = (ConsumerRecords<byte[], byte[]>) poll.invoke(consumer, pollTime);
            for (TopicPartition tp : records.partitions()) {
                for (ConsumerRecord<byte[], byte[]> r : records.records(tp)) {
                    line.setLength(0);
                    format(line, r);
                    out.println(line);
                    count++;
                }
            }
        }
        consumer.assign(Collections.<TopicPartition>emptyList());
        out.println("end " + count);
        out.flush();
    }

    private boolean done(Map<TopicPartition, Long> ends) {
        for (Map.Entry<TopicPartition, Long> e : ends.entrySet()) {
            if (consumer.position(e.getKey()) < e.getValue()) {
                return false;
            }
        }
        return true;
    }

    private void format(StringBuilder b, ConsumerRecord<byte[], byte[]> r) {
        b.append(r.partition()).append(' ').append(r.offset()).append(' ');
        switch (r.timestampType()) {
            case CREATE_TIME: b.append('C'); break;
            case LOG_APPEND_TIME: b.append('L'); break;
            default: b.append('N');
        }
        b.append(r.timestamp()).append(' ');
        bytes(b, r.key());
        b.append(' ');
        bytes(b, r.value());
        b.append(' ');
        boolean any = false;
        for (Header h : r.headers()) {
            b.append(any ? "," : "");
            bytes(b, h.key().getBytes(StandardCharsets.UTF_8));
            b.append('|');
            bytes(b, h.value());
            any = true;
        }
        b.append(any ? "" : "none");
    }

    private void bytes(StringBuilder b, byte[] v) {
        if (v == null) {
            b.append('-');
        } else if (v.length <= HEX_UP_TO) {
            b.append('=');
            hex(b, v);
        } else {
            b.append('#').append(v.length).append(':');
            hex(b, sha256.digest(v));
        }
    }

    private static void hex(StringBuilder b, byte[] v) {
        for (byte x : v) {
            b.append(HEX[x >> 4 & 15]).append(HEX[x & 15]);
        }
    }

    public static void main(String[] args) throws Exception {
        // What libraries log to standard output must not stand between the lines.
        PrintStream out = new PrintStream(new java.io.BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, "UTF-8");
        System.setOut(System.err);
        Reader reader = new Reader(args[0], out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String topic = in.readLine(); topic != null; topic = in.readLine()) {
            reader.read(topic);
        }
        reader.consumer.close();
    }
}
