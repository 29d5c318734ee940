"""Classic consumer groups: membership as a state machine without IO, committed offsets on disk."""
