"""The gateway's own figures: plain integers, added to on the serving path and read when /metrics is asked.

Nothing here is per record: a Fetch costs one `ApiFigures.answered` and one addition. All of it belongs to the
event loop's thread.
"""

from bisect import bisect_left

from gateway.observe.names import REQUEST_SECONDS_BUCKETS


class ApiFigures:
    """Requests of one API: how many in which version, how long they took, what errors they got."""

    __slots__ = ("buckets", "errors", "name", "requests", "seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: dict[int, int] = {}
        """Number of answered requests, by API version."""
        self.errors: dict[str, int] = {}
        """Number of requests whose answer carried this error code's name."""
        self.seconds = 0.0
        """Sum of the seconds from the whole request's arrival to its answer, the wait of a long poll
        included."""
        self.buckets = [0] * (len(REQUEST_SECONDS_BUCKETS) + 1)
        """Number of requests by latency, one entry per bound of REQUEST_SECONDS_BUCKETS and one beyond."""

    def answered(self, version: int, seconds: float) -> None:
        """Count one answered request."""
        requests = self.requests
        requests[version] = requests.get(version, 0) + 1
        self.seconds += seconds
        self.buckets[bisect_left(REQUEST_SECONDS_BUCKETS, seconds)] += 1

    def failed(self, error: str) -> None:
        """Count one error answered at the top of a response, by the error code's name."""
        self.errors[error] = self.errors.get(error, 0) + 1


class Metrics:
    """All counters of one gateway process."""

    __slots__ = (
        "apis",
        "connections",
        "connections_opened",
        "decode_errors",
        "fetch_bytes",
        "parked_fetches",
        "received_bytes",
        "registry_requests",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.connections = 0
        """Connections open now."""
        self.connections_opened = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.decode_errors = 0
        """Connections closed because their bytes were not Kafka's protocol."""
        self.fetch_bytes = 0
        """Bytes of record batches handed out by Fetch."""
        self.parked_fetches = 0
        """Fetches that wait for records now."""
        self.registry_requests: dict[int, int] = {}
        """Requests to the schema registry, by HTTP status."""
        self.apis: dict[str, ApiFigures] = {}

    def api(self, name: str) -> ApiFigures:
        """The figures of the API with this name ("Fetch"); keep the object, it lives as long as the
        process."""
        figures = self.apis.get(name)
        if figures is None:
            figures = self.apis[name] = ApiFigures(name)
        return figures
