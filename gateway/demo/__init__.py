"""The demo: a small shop on an embedded PostgreSQL, captured, served, read back and proved against SQL."""
