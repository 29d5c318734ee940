"""Which names a topic may have, by Kafka's rules (org.apache.kafka.common.internals.Topic)."""

import re
from typing import Final

from protocol.errors import ErrorCode, KafkaError

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


def check_name(name: str) -> None:
    """Raise KafkaError(INVALID_TOPIC_EXCEPTION) for a name that no topic could have."""
    if not _LEGAL.match(name) or name in (".", ".."):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"No topic can be called {name!r}.")
