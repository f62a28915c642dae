"""A snapshot of a captured database whose place in its stream is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from headrace.sources.part import Part
    from headrace.sources.schema import SourceSchema
    from headrace.sources.stream.envelope import Event


class Seen(Protocol):
    """Which committed transactions a snapshot sees."""

    def shows(self, event: Event) -> bool | None:
        """Whether the rows of the event's transaction, which is committed, are in the snapshot.

        None: it is of none. Where that is not certain, they are not: they are taken from the stream then,
        which has these or newer ones.
        """
        ...


class Position(Protocol):
    """A snapshot of the source that stays readable, with a mark committed after it.

    All transactions that it shows come before the mark in the stream; what else comes before it was committed
    between the two.
    """

    @property
    def token(self) -> str:
        """Of the mark."""
        ...

    @property
    def lsn(self) -> int:
        """Where the source's log stood at the snapshot."""
        ...

    @property
    def floor(self) -> int:
        """No transaction that the snapshot does not show has written before it; 0 where nothing tells."""
        ...

    @property
    def seen(self) -> Seen: ...

    @property
    def place(self) -> str:
        """`lsn` as the database writes it."""
        ...

    def stage(self, schema: SourceSchema, arrow: pa.Schema, path: Path, part: Part | None = None) -> None:
        """Write a table's rows at the snapshot as Parquet. Several tables may be read at the same time.

        Args:
            arrow: names and types of the source columns.
            part: which rows; None: all of them.
        Raises:
            TerminalError, TransientError: the source does not let them be read.
        """
        ...

    def check(self, schema: SourceSchema, condition: str) -> None:
        """Raises TerminalError where the source refuses a condition over the table's rows."""
        ...

    def query(self, text: str) -> list[tuple[object, ...]]:
        """Run any query at the snapshot."""
        ...
