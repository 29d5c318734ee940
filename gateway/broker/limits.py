"""What one client may cost: bounds of frames, of silence, and of what waits in memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """Kafka's names for the same bounds stand beside each."""

    max_frame_bytes: int = 16 * 1024 * 1024
    """`socket.request.max.bytes` (Kafka: 100 MiB). Only a Produce is ever so large; it is refused, but
    a producer reads that only once it was let send all of it."""
    max_request_bytes: int = 4 * 1024 * 1024
    """The same for all but Produce, since what is decoded takes many times the space. Large enough for
    10,000 topics with names as long as may be (249 bytes) in a Fetch, Metadata or OffsetCommit: 3 MB."""
    max_idle_ms: int = 600_000
    """`connections.max.idle.ms`. A connection that neither sends nor reads for this long is closed."""
    write_buffer_bytes: int = 256 * 1024
    """Above this much unsent, a connection's next request waits until its client has read."""
    stop_grace_ms: int = 300
    """How long a stopping gateway waits for clients to take the answers that are under way."""
