import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Prints the changes of a topic from its beginning to its end: offset, operation, key and row. */
public class Changes {
    private final HttpClient http = HttpClient.newHttpClient();
    private final Map<Integer, Schema> schemas = new HashMap<>();
    private final String registry;

    Changes(String registry) {
        this.registry = registry;
    }

    public static void main(String[] arguments) throws Exception {
        String kafka = arguments[0];
        String topic = arguments[2];
        Changes changes = new Changes(arguments[1]);
        Map<String, Object> settings = Map.of("bootstrap.servers", kafka);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    changes.print(record);
                }
            }
        }
    }

    private void print(ConsumerRecord<byte[], byte[]> record) throws IOException, InterruptedException {
        GenericRecord key = decoded(record.key());
        GenericRecord change = decoded(record.value());
        String operation = change == null ? "tombstone" : change.get("op").toString();
        Object row = change == null ? null : change.get("after");
        System.out.println(record.offset() + " " + operation + " " + key + " " + row);
    }

    /** A zero byte, the schema's id in four bytes, then Avro; null stays null. */
    private GenericRecord decoded(byte[] data) throws IOException, InterruptedException {
        if (data == null) {
            return null;
        }
        int id = ByteBuffer.wrap(data, 1, 4).getInt();
        if (!schemas.containsKey(id)) {
            schemas.put(id, schema(id));
        }
        GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schemas.get(id));
        return reader.read(null, DecoderFactory.get().binaryDecoder(data, 5, data.length - 5, null));
    }

    private Schema schema(int id) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(registry + "/schemas/ids/" + id + "/schema")).build();
        return new Schema.Parser().parse(http.send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
