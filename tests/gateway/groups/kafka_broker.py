"""Apache Kafka itself, one node, as the oracle of what a coordinator answers."""

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.jars import class_path, java, kafka_jars

_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def kafka_broker() -> Iterator[tuple[str, int]]:
    """Start a broker with the group settings of these tests; gives its address."""
    jars = class_path(kafka_jars())
    with tempfile.TemporaryDirectory(prefix="tidegate-kafka-") as folder:
        port, controller_port = _free_port(), _free_port()
        properties = Path(folder) / "server.properties"
        properties.write_text(
            f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=100
"""
        )
        uuid = "MkU3OEVBNTcwNTJENDM2Qg"
        subprocess.run(
            [
                *[java(), *_OPTIONS, "-cp", jars, "kafka.tools.StorageTool"],
                *["format", "-t", uuid, "-c", str(properties)],
            ],
            check=True,
            capture_output=True,
        )
        with subprocess.Popen(
            [java(), *_OPTIONS, "-cp", jars, "kafka.Kafka", str(properties)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        ) as process:
            try:
                _wait_for(port, process)
                yield "127.0.0.1", port
            finally:
                process.kill()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, "Kafka ended by itself"
            assert time.monotonic() < deadline, "Kafka did not start"
            time.sleep(0.1)
