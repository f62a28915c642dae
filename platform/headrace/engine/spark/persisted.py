"""Frames that are computed once and read several times, and freed together."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Persisted:
    """Persisted to the end of the block, however it ends: `with Persisted() as persist: f = persist(f)`.

    Spark holds what is persisted until it is told otherwise, and looks through all of it for every query.
    """

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __call__(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist()
        self._frames.append(kept)
        return kept

    def __enter__(self) -> Persisted:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for frame in reversed(self._frames):
            frame.unpersist()
        self._frames.clear()
