"""A process for one capture: options in, work until SIGTERM, an exit code that says whether to retry."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from capture import log_lines
from capture.errors import CaptureError
from capture.log import Log, LogError
from capture.log.file_limit import raise_file_limit
from capture.options import CaptureOptions, OptionError, read_file, read_json
from capture.postgres.log_sink import from_log
from capture.postgres.postgres_capture import PostgresCapture
from capture.postgres.wake import Wake

log = logging.getLogger(__name__)

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
EXIT_RETRY: Final = 75  # EX_TEMPFAIL: the same may work later


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one capture; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m capture", description=__doc__)
    parser.add_argument("name", help="the capture's name")
    parser.add_argument("--data", type=Path, required=True, help="the data directory")
    parser.add_argument(
        "--options-json", required=True, metavar="FILE", help="Debezium's properties as JSON; - for stdin"
    )
    given = parser.parse_args(arguments)
    log_lines.configure()
    raise_file_limit()
    try:
        options = CaptureOptions.parse(_properties(given.options_json), name=given.name)
    except OptionError as error:
        return _failed(str(error).replace("\n", "; "), EXIT_USAGE)
    if options.accepted:
        log.info("properties without effect here", extra={"properties": ", ".join(options.accepted)})
    try:
        run(options, given.data)
    except CaptureError as error:
        return _failed(str(error), EXIT_RETRY if error.retry else EXIT_FAILURE)
    except Exception as error:  # the outermost loop: anything else is a bug
        log.exception("capture broke")
        return _failed(f"{type(error).__name__}: {error}; this is a bug, please report it", EXIT_FAILURE)
    return 0


def run(options: CaptureOptions, data: Path) -> None:
    """Capture until SIGTERM or SIGINT. Raises CaptureError."""
    stop, wake = Wake(), Wake()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        opened = Log.open(data, create=True)
    except LogError as error:
        raise from_log(error) from error
    try:
        PostgresCapture(options, opened, stop=stop, wake=wake).run()
    finally:
        opened.close()


def _properties(source: str) -> dict[str, object]:
    if source == "-":
        return read_json(sys.stdin.read(), "the standard input")
    return read_file(Path(source))


def _failed(sentence: str, code: int) -> int:
    log.error("capture failed", extra={"error": sentence, "exit_code": code})
    return code
