"""The sink between encoder and log: what its committer does besides committing."""

from __future__ import annotations

import time

from capture.envelope import Output
from capture.log import Log, Writer
from capture.log.layout import segment_base_offsets
from capture.lsn import Lsn
from capture.postgres.log_sink import LogSink
from capture.postgres.position import Position
from capture.postgres.wake import Wake
from tests.capture.log import logs


def test_the_committer_lets_old_segments_go(tmp_path) -> None:
    log = Log.open(tmp_path / "data", create=True)
    writer = Writer.open(log, logs.CAPTURE)
    size = len(logs.batch(4))
    config = {"segment.bytes": str(size), "retention.bytes": str(3 * size)}
    sink = LogSink(writer, config, Wake(), retention_interval_s=0.01)
    sink.start()
    try:
        for n in range(10):
            sink.append([Output("t", 0, logs.batch(4), 4, True, logs.START_MS)])
            sink.hand_over(Position(Lsn(n + 1)))
            sink.flush()
        partition = sink.partition("t")
        deadline = time.monotonic() + 20
        while len(segment_base_offsets(partition.folder)) > 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert segment_base_offsets(partition.folder) == [28, 32, 36]
        topic = log.catalog.topic("t")
        assert topic is not None
        assert topic.partitions[0].log_start_offset == 28
        assert topic.partitions[0].high_watermark == 40
        assert sink.committed_lsn == Lsn(10)
    finally:
        sink.stop()
        writer.close()
        log.close()
