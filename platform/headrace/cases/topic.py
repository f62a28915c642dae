"""A captured table's topic in a case: what its database would have sent, applied as the server applies it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headrace.cases.held import Change
from headrace.cases.model import GivenRow, unknown_column
from headrace.cases.values import image, rows_of
from headrace.engine.ingest.driver import ingest
from headrace.engine.spark.sessions import Sessions
from headrace.engine.table.table import StgTable
from headrace.errors import SpecError
from headrace.sources.stream.dead_letters import DeadLetters
from headrace.sources.stream.envelope import Event

_STEP = 8
"""Bytes of the log between two changes."""


@dataclass
class Topic:
    """
    Args:
        root: a folder for its dead letters.
    """

    sessions: Sessions
    table: StgTable
    root: Path
    sent: int = 0
    letters: DeadLetters = field(init=False)

    def __post_init__(self) -> None:
        self.letters = DeadLetters(self.root / "dead_letters")
        self.letters.open()

    def bring(self, changes: Sequence[Change]) -> None:
        """One micro-batch of the changes.

        Raises:
            SpecError: a row cannot be read as the captured table's.
        """
        if not changes:
            return
        events = [self._event(change) for change in changes]
        name = self.table.topic
        end = {name: {0: self.sent}}
        ingest(self.sessions.flow, self.table, events, end, self.letters, run_id="cases", batch=self.sent)
        for letter in self.letters.rows():
            row = changes[letter["offset"] - events[0].offset].shown
            raise SpecError(f"`{name}`: {letter['reason']}", row.location)

    def typed(self, rows: Iterable[GivenRow]) -> pa.Table:
        """The rows as they are read of the topic, types of Spark."""
        return rows_of(rows, self.table.source.typed, self.table.topic)

    def _event(self, change: Change) -> Event:
        op = "d" if change.after is None else "c" if change.before is None else "u"
        before, after = (None if row is None else self._image(row) for row in (change.before, change.after))
        shown = json.loads(after or before or "")
        key = json.dumps({name: shown[name] for name in self.table.source.key})
        lsn = _STEP * (self.sent + 1)
        event = Event(
            topic=self.table.topic,
            partition=0,
            offset=self.sent,
            key=key,
            op=op,
            before=before,
            after=after,
            lsn=lsn,
            source_ms=1,
            snapshot="false",
            value=b"{}",
        )
        self.sent += 1
        return event

    def _image(self, row: GivenRow) -> str:
        source = self.table.source
        if (error := unknown_column(row, list(source.names), str(source.table))) is not None:
            raise error
        return image(row, source.columns)
