"""Which names a topic may have, by Kafka's rules (org.apache.kafka.common.internals.Topic)."""

import re
from typing import Final

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


def is_legal(name: str) -> bool:
    """Whether a topic could be called `name` at all."""
    return _LEGAL.match(name) is not None and name not in (".", "..")
