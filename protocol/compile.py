"""Compiles declared messages into plain Python functions, one per message, version and direction."""

from protocol.decoder import compile_decoder
from protocol.encoder import compile_encoder

__all__ = ["compile_decoder", "compile_encoder"]
