"""Several captures in processes of their own write one log, and one more process reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from capture.log import Listener, Log, LogReader
from tests.capture.log import logs

ROOT = Path(__file__).resolve().parents[3]
COMMITS = 60
PROGRAM = """
import sys
from pathlib import Path
from capture.log import Log, Writer
from tests.capture.log import logs

log, name = Log.open(Path(sys.argv[1])), sys.argv[2]
writer = Writer.open(log, name)
partition = writer.partition(log.catalog.create_topic(name, capture=name))
for n in range({commits}):
    log.schemas.register(f"{{name}}-value", str(n // 10))
    writer.commit(str(n), {{partition: writer.append(partition, [logs.batch(2)])}})
writer.close()
"""


def test_captures_do_not_disturb_each_other(log: Log) -> None:
    names = [f"capture-{n}" for n in range(4)]
    listener, reader = Listener(log.data), LogReader(log)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(commits=COMMITS), str(log.data), name], cwd=ROOT
        )
        for name in names
    ]
    marks: dict[int, int] = {}
    while any(writer.poll() is None for writer in writers):
        listener.drain()
        for partition_id in reader.refresh():
            mark = reader.partition(partition_id).high_watermark
            assert mark >= marks.get(partition_id, 0)
            marks[partition_id] = mark
    assert [writer.returncode for writer in writers] == [0] * len(names)
    reader.refresh()
    for name in names:
        partition = reader.partition(reader.topics[name].partitions[0].partition_id)
        assert [record.offset for record in logs.read_all(partition)] == list(range(2 * COMMITS))
        assert log.catalog.capture(name).position == str(COMMITS - 1)
    # The four registered the same six texts, each under a subject of its own.
    assert [log.schemas.versions(f"{name}-value") for name in names] == [[1, 2, 3, 4, 5, 6]] * len(names)
    assert {log.schemas.by_id(n).schema for n in range(1, 7)} == {str(n) for n in range(6)}
    assert log.schemas.by_id(7) is None
    listener.close()
