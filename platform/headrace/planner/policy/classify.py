"""What happened to an upstream between two versions, from its commit records alone: no data is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Change(StrEnum):
    """From the least to the most that a reader must expect."""

    NOTHING = "nothing"
    APPEND = "append only"
    CHANGES = "changes"
    REPLACED = "replaced partitions"


_ORDER = tuple(Change)
_INSERT = "+I"


class Record(Protocol):
    """What of a commit's record tells; `headrace.store.record.commits.Commit` is one."""

    @property
    def mode(self) -> str: ...
    @property
    def kinds(self) -> Mapping[str, int] | None: ...


@dataclass(frozen=True)
class Classified:
    """`rows` is the number of change rows, None where an older commit did not count them."""

    change: Change
    rows: int | None


def classify(records: Iterable[Record | None], *, skip_backfill: bool = False) -> Classified:
    """The most that any of the commits did.

    Args:
        records: of every version in the range; None for one whose record cannot be read.
        skip_backfill: corrections do not count: the reader leaves them out.
    """
    found, rows, known = Change.NOTHING, 0, True
    for record in records:
        if record is None or record.kinds is None:
            known, one = False, Change.CHANGES
        elif record.mode == "backfill" and skip_backfill:
            continue
        else:
            counts = {kind: n for kind, n in record.kinds.items() if n}
            rows += sum(counts.values())
            one = (
                Change.NOTHING
                if not counts
                else Change.APPEND
                if set(counts) == {_INSERT}
                else Change.CHANGES
            )
            if counts and record.mode == "backfill":
                one = Change.REPLACED
        found = max(found, one, key=_ORDER.index)
    return Classified(found, rows if known else None)
