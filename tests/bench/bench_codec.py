"""Times the codec: `python tests/bench/bench_codec.py` prints microseconds per call.

What to compare with: the prototypes decoded a 200-partition FetchRequest in 88 us and encoded it in 44, where
kafka-python 3.0 took 112 and 406. Printed beside is kafka-python's figure of the same run.
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).parents[2]))

from protocol.header import decode_request_header, request_frame, response_frame
from protocol.message import decode, decoder, encode, encoder, versions
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

TOPIC = UUID("6a1f4c1e-6f0e-4e8a-9d52-0123456789ab")


def best(call: Callable[[], object], seconds: float = 0.3) -> float:
    """Microseconds of a call: the best of several rounds, so that other work on the machine counts least."""
    number, spent = 1, 0.0
    while spent < seconds / 10:
        number *= 2
        spent = _time(call, number)
    return min(_time(call, number) / number for _ in range(10)) * 1e6


def _time(call: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return time.perf_counter() - start


def request(version: int, partitions: int) -> FetchRequest:
    asked = [
        FetchPartition(
            partition=i, fetch_offset=1000 + i, partition_max_bytes=1 << 20, current_leader_epoch=0
        )
        for i in range(partitions)
    ]
    topic = (
        FetchTopic(topic="shop.public.orders", partitions=asked)
        if version < 13
        else FetchTopic(topic_id=TOPIC, partitions=asked)
    )
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, isolation_level=1, topics=[topic])


def response(version: int, records: memoryview) -> FetchResponse:
    data = PartitionData(
        partition_index=0, high_watermark=5000, last_stable_offset=5000, log_start_offset=0, records=records
    )
    topic = (
        FetchableTopicResponse(topic="shop.public.orders", partitions=[data])
        if version < 13
        else FetchableTopicResponse(topic_id=TOPIC, partitions=[data])
    )
    return FetchResponse(responses=[topic])


def theirs(version: int, body: bytes) -> tuple[Callable[[], object], Callable[[], object]]:
    """kafka-python's decoder and encoder of the same request."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.protocol.consumer import FetchRequest as Theirs
    value: Any = Theirs.decode(body, version=version)
    value._header = None
    return lambda: Theirs.decode(body, version=version), lambda: value.encode(version=version)


def compile_all() -> None:
    for version in versions(FetchRequest):
        for cls in (FetchRequest, FetchResponse):
            decoder(cls, version)
            encoder(cls, version)


def figures(version: int) -> None:
    """Print the figures of one version of Fetch."""
    name = f"FetchRequest v{version}"
    many = request(version, 200)
    body = b"".join(encode(many, version))
    their_decode, their_encode = theirs(version, body)
    show(f"{name}, 200 partitions, decode", lambda: decode(FetchRequest, version, body), their_decode)
    show(f"{name}, 200 partitions, encode", lambda: encode(many, version), their_encode)
    frame = b"".join(request_frame(request(version, 1), version, 7, "consumer-1"))[4:]
    _, offset = decode_request_header(frame)
    show(f"{name}, 1 partition, header", lambda: decode_request_header(frame))
    show(f"{name}, 1 partition, decode", lambda: decode(FetchRequest, version, frame, offset))
    name = f"FetchResponse v{version}"
    small, large = (memoryview(bytes(size)) for size in (1024, 1 << 20))
    short, long = response(version, small), response(version, large)
    show(f"{name}, 1 KiB of records, frame", lambda: response_frame(7, short, version))
    show(f"{name}, 1 MiB of records, frame", lambda: response_frame(7, long, version))
    show(f"{name}, object made and framed", lambda: response_frame(7, response(version, large), version))


def show(what: str, call: Callable[[], object], reference: Callable[[], object] | None = None) -> None:
    line = f"{what:50}{best(call):9.2f} us"
    if reference is not None:
        line += f"   kafka-python {best(reference):8.2f} us"
    print(line)


def main() -> None:
    start = time.perf_counter()
    compile_all()
    spent = time.perf_counter() - start
    print(f"{'compile Fetch, every version and direction':50}{spent * 1e3:9.2f} ms")
    for version in (11, 18):
        figures(version)


if __name__ == "__main__":
    main()
