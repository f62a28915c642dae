"""Spark's JVM is started again where it was killed while it started."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.engine.spark import session
from headrace.engine.spark.session import ATTEMPTS, launched


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none, whatever tests ran in this process before."""
    monkeypatch.setattr(session, "forget_ended", lambda: True)


class Builder:
    """Fails some times, as where the JVM has ended."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    def getOrCreate(self) -> str:  # Spark's name
        self.asked += 1
        if self.asked <= self.failures:
            raise RuntimeError("[JAVA_GATEWAY_EXITED]")
        return "session"


def test_a_jvm_that_is_killed_is_followed_by_another() -> None:
    builder = Builder(ATTEMPTS - 1)
    assert cast(Any, launched(cast(Any, builder))) == "session"
    assert builder.asked == ATTEMPTS


def test_what_ends_every_one_is_raised() -> None:
    builder = Builder(ATTEMPTS)
    with pytest.raises(RuntimeError, match="JAVA_GATEWAY_EXITED"):
        launched(cast(Any, builder))
    assert builder.asked == ATTEMPTS
