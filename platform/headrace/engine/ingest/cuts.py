"""Cuts at marked positions of the source: the versions of a flow's tables where a marker row was read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from headrace.errors import TransientError
from headrace.sources.envelope import Event
from headrace.sources.postgres import MARKER_TABLE
from headrace.spec.model import TableName
from headrace.store.record.frontier import Offsets


@dataclass(frozen=True)
class Cut:
    """A flow at one position of its source.

    Args:
        versions: changelog version of every table.
        offsets: where the topics go on after it.
    """

    versions: Mapping[TableName, int]
    offsets: Offsets


class CutMissed(TransientError):
    """The flow went over a position in a batch too large to be divided there."""


class Cuts:
    """Who waits for which marker row of one flow."""

    def __init__(self) -> None:
        self._waiting: dict[str, Future[Cut]] = {}

    def expect(self, token: str) -> Future[Cut]:
        """The cut at the position that the marker row `token` will have."""
        future: Future[Cut] = Future()
        self._waiting[token] = future
        return future

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for one."""
        return bool(self._waiting)

    def marks(self, events: Iterable[Event]) -> dict[str, int]:
        """LSN of the marker rows that somebody waits for, by token."""
        marks = {}
        for event in events:
            if event.topic.endswith("." + MARKER_TABLE) and event.op == "c" and event.after:
                token = str(json.loads(event.after).get("id"))
                if token in self._waiting:
                    marks[token] = event.lsn
        return marks

    def reached(self, token: str, cut: Cut) -> None:
        """The flow stands at the marker row."""
        self._waiting.pop(token).set_result(cut)

    def missed(self) -> None:
        """The flow passed them, perhaps, in a batch that is not divided: whoever waits asks again."""
        for token in [t for t in self._waiting if not self._waiting[t].done()]:
            self._waiting.pop(token).set_exception(CutMissed(f"a batch too large to divide passed {token}"))
