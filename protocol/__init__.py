"""Kafka's wire format, sans-IO: bytes in, objects out."""
