"""Classic consumer groups: membership as a state machine without IO, committed offsets on disk."""

from gateway.groups.config import GroupConfig
from gateway.groups.coordinator import Coordinator

__all__ = ["Coordinator", "GroupConfig"]
