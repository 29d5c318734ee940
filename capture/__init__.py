"""Sources to the change log: Postgres logical replication, the envelope, and the log itself."""
