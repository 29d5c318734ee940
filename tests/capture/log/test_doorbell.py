"""Doorbells: heard by everyone who listens, gone with them, silent for nobody."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from capture.log import Listener, LogError, Ringer, ring


@pytest.mark.parametrize("depth", [0, 12])
def test_every_listener_hears_the_bell(tmp_path: Path, depth: int) -> None:
    # Twelve folders deep the address is longer than an address of a socket may be.
    data = tmp_path.joinpath(*["a-folder-name"] * depth)
    listeners = [Listener(data) for _ in range(3)]
    assert ring(data) == 3
    assert select.select(listeners, [], [], 5)[0] == listeners
    for listener in listeners:
        assert listener.drain()
        assert not listener.drain()
        listener.close()
    assert select.select([], [], [], 0)[0] == []
    assert ring(data) == 0
    assert list((data / "doorbells").iterdir()) == []


def test_the_bells_of_the_dead_are_taken_down(tmp_path: Path) -> None:
    listener, dead = Listener(tmp_path), Listener(tmp_path)
    dead._socket.close()  # as a killed process leaves it
    assert ring(tmp_path) == 1
    assert list((tmp_path / "doorbells").iterdir()) == [listener.path]
    listener.close()


def test_a_listener_that_never_drains_does_not_stop_the_ringer(tmp_path: Path) -> None:
    listener, ringer = Listener(tmp_path), Ringer(tmp_path)
    for _ in range(2000):
        assert ringer.ring() == 1
    assert listener.drain()
    ringer.close()
    listener.close()


def test_ringing_where_nobody_ever_listened_is_nothing(tmp_path: Path) -> None:
    assert ring(tmp_path / "nothing") == 0


def test_a_folder_that_holds_no_sockets_is_named(tmp_path: Path) -> None:
    (tmp_path / "doorbells").symlink_to("/proc/self")
    with pytest.raises(LogError, match="cannot make the doorbell"):
        Listener(tmp_path)
