"""A thread that looks again and again outlives what a look raises."""

from __future__ import annotations

import threading

import pytest

from headrace.ticking import Ticking


def test_a_look_that_fails_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    looks, enough = [0], threading.Event()

    def look() -> None:
        looks[0] += 1
        if looks[0] > 2:
            enough.set()
        raise OSError("the disk is full")

    ticking = Ticking("compact", look, 0.001)
    ticking.start()
    assert enough.wait(10)
    ticking.stop()
    assert "the disk is full" in caplog.text and "compact" in caplog.text
