// The Java consumer: java -cp … ReadTopics.java BOOTSTRAP REGISTRY_URL|- subscribe|assign TOPIC…
// Prints a JSON list per record; with a registry, each value also goes through Confluent's deserializer.

import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ReadTopics {
    public static void main(String[] arguments) {
        String registry = arguments[1];
        boolean subscribe = arguments[2].equals("subscribe");
        List<String> topics = Arrays.asList(arguments).subList(3, arguments.length);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("auto.offset.reset", "earliest");
        if (subscribe) {
            properties.put("group.id", "java-subscribe");
        }
        KafkaAvroDeserializer deserializer = null;
        if (!registry.equals("-")) {
            deserializer = new KafkaAvroDeserializer();
            deserializer.configure(Map.of("schema.registry.url", registry), false);
        }
        try (var consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            if (subscribe) {
                consumer.subscribe(topics);
            } else {
                consumer.assign(topics.stream().map(topic -> new TopicPartition(topic, 0)).toList());
            }
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (deserializer != null && record.value() != null) {
                        var change = (GenericRecord) deserializer.deserialize(record.topic(), record.value());
                        if (!"rcud".contains(change.get("op").toString())) {
                            throw new IllegalStateException("op " + change.get("op"));
                        }
                    }
                    System.out.println("[\"" + record.topic() + "\", " + record.partition() + ", " + record.offset()
                            + ", " + hex(record.key()) + ", " + hex(record.value()) + "]");
                }
                System.out.flush();
            }
        }
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : "\"" + HexFormat.of().formatHex(bytes) + "\"";
    }
}
