"""The cluster id that clients see: made at a data directory's first start, the same for ever after."""

import base64
import contextlib
import os
import uuid
from pathlib import Path
from typing import Final

FILE_NAME: Final = "cluster.id"
_LENGTH: Final = 22


def cluster_id(data: Path) -> str:
    """Read the id of `data`, or make one: 16 random bytes in 22 characters, as Kafka's are.

    Gateways that start at the same moment agree, for a link is made once only. Raises OSError, and ValueError
    for a file that holds something else.
    """
    path = data / FILE_NAME
    if not path.exists():
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        draft = path.with_suffix(f".{os.getpid()}.part")
        with draft.open("w") as file:
            file.write(made + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    text = path.read_text().strip()
    if len(text) != _LENGTH:
        raise ValueError(f"{path} holds no cluster id; remove it and a new one is made")
    return text
