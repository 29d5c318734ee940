"""Names and labels of every metric that /metrics shows, and nothing else.

Prometheus' conventions: base units (seconds, bytes), `_total` on counters. Labels stay few and bounded: never
a client id and never an offset. `group` exists for the lag alone, and the number of groups is bounded by the
coordinator.
"""

from typing import Final

PREFIX: Final = "tidegate_"

# Labels.
API: Final = "api"
VERSION: Final = "version"
ERROR: Final = "error"
CAPTURE: Final = "capture"
PHASE: Final = "phase"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
GROUP: Final = "group"
STATE: Final = "state"
PART: Final = "part"
STATUS: Final = "status"

# The broker.
CONNECTIONS: Final = PREFIX + "connections"
CONNECTIONS_OPENED: Final = PREFIX + "connections_opened_total"
RECEIVED_BYTES: Final = PREFIX + "received_bytes_total"
SENT_BYTES: Final = PREFIX + "sent_bytes_total"
DECODE_ERRORS: Final = PREFIX + "decode_errors_total"
REQUESTS: Final = PREFIX + "requests_total"
REQUEST_ERRORS: Final = PREFIX + "request_errors_total"
REQUEST_SECONDS: Final = PREFIX + "request_seconds"
FETCH_BYTES: Final = PREFIX + "fetch_bytes_total"
PARKED_FETCHES: Final = PREFIX + "parked_fetches"

# The log.
LOG_START_OFFSET: Final = PREFIX + "log_start_offset"
LOG_END_OFFSET: Final = PREFIX + "log_end_offset"

# Consumer groups.
GROUPS: Final = PREFIX + "groups"
GROUP_MEMBERS: Final = PREFIX + "group_members"
GROUP_LAG: Final = PREFIX + "group_lag"
OFFSET_COMMITS: Final = PREFIX + "offset_commits_total"
OFFSET_COMMIT_BATCHES: Final = PREFIX + "offset_commit_batches_total"

# Captures, as each of them last reported.
CAPTURE_PHASE: Final = PREFIX + "capture_phase"
CAPTURE_LAG_BYTES: Final = PREFIX + "capture_lag_bytes"
CAPTURE_LAG_SECONDS: Final = PREFIX + "capture_lag_seconds"
CAPTURE_ROWS: Final = PREFIX + "capture_rows_total"
CAPTURE_STATUS_AGE: Final = PREFIX + "capture_status_age_seconds"
SNAPSHOT_ROWS: Final = PREFIX + "snapshot_rows"
SNAPSHOT_ROWS_ESTIMATED: Final = PREFIX + "snapshot_rows_estimated"
SNAPSHOT_DONE: Final = PREFIX + "snapshot_done"

# The process and the schema registry.
BUILD_INFO: Final = PREFIX + "build_info"
SCRAPE_ERRORS: Final = PREFIX + "scrape_errors"
REGISTRY_REQUESTS: Final = PREFIX + "registry_requests_total"

REQUEST_SECONDS_BUCKETS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.1,
    0.5,
    1.0,
    5.0,
)
"""Upper bounds of the latency histogram, in seconds; +Inf comes last by itself."""

PHASES: Final = ("starting", "snapshot", "streaming", "failed", "stopped")
"""What a capture can report of itself (`phase` in its status); "stopped" after it was ended on purpose."""
