"""One member of a group, run as a program: a stock client that subscribes, reads, and commits each record.

Prints JSON lines: {"assigned": [partitions]} after each rebalance, {"record": [partition, offset]} once its
commit was answered, {"error": text}. SIGTERM: it closes the consumer, which leaves the group. SIGKILL: it is
gone.
"""

import asyncio
import json
import logging
import signal
import sys
from typing import Any

SESSION_MS = 1_500
HEARTBEAT_MS = 200

stopping = False


def say(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def run_confluent(bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    from confluent_kafka import Consumer, KafkaException

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    consumer.subscribe(
        [topic], on_assign=lambda _, partitions: say(assigned=sorted(one.partition for one in partitions))
    )
    while not stopping:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            say(error=str(message.error()))
            continue
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException as error:
            say(error=str(error))
            continue
        say(record=[message.partition(), message.offset()])
    consumer.close()


def run_kafka_python(bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    import kafka
    from kafka.errors import KafkaError

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=sorted(one.partition for one in assigned))

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
    )
    consumer.subscribe([topic], listener=Listener())
    while not stopping:
        for messages in consumer.poll(100).values():
            for message in messages:
                try:
                    consumer.commit()
                except KafkaError as error:
                    say(error=str(error))
                    continue
                say(record=[message.partition, message.offset])
    consumer.close()


def run_aiokafka(bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    asyncio.run(_run_aiokafka(bootstrap, group, topic, instance))


async def _run_aiokafka(bootstrap: str, group: str, topic: str, instance: str | None) -> None:
    import aiokafka
    from aiokafka.errors import KafkaError

    class Listener(aiokafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=sorted(one.partition for one in assigned))

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.subscribe([topic], listener=Listener())
    while not stopping:
        for partition, messages in (await consumer.getmany(timeout_ms=100, max_records=1)).items():
            for message in messages:
                try:
                    await consumer.commit({partition: message.offset + 1})
                except KafkaError as error:
                    say(error=str(error))
                    continue
                say(record=[message.partition, message.offset])
    await consumer.stop()


RUNNERS = {"confluent": run_confluent, "kafka-python": run_kafka_python, "aiokafka": run_aiokafka}


def main() -> None:
    def stop(*_: object) -> None:
        global stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    client, bootstrap, group, topic, *rest = sys.argv[1:]
    RUNNERS[client](bootstrap, group, topic, rest[0] if rest else None)
    say(left=True)


if __name__ == "__main__":
    main()
