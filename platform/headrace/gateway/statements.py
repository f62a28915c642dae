"""The gateway's statements as frozen dataclasses. What each one does stands in `execution`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.results import Start
from headrace.spec.alteration import Property
from headrace.spec.partitions.label_range import LabelRange


@dataclass(frozen=True)
class Select:
    sql: str


@dataclass(frozen=True)
class ShowTables:
    pass


@dataclass(frozen=True)
class ShowPartitions:
    """The complete partitions of a table."""

    table: str


@dataclass(frozen=True)
class ShowChecks:
    """What each check of a table, or of all of them, found last."""

    table: str | None


@dataclass(frozen=True)
class ShowDeadLetters:
    """`settled`: with those that were replayed or dropped."""

    table: str | None
    settled: bool = False


@dataclass(frozen=True)
class ShowQuarantine:
    """The rows that QUARANTINE constraints keep out of a table."""

    table: str


@dataclass(frozen=True)
class ShowAccounting:
    """Whether rows and events of a table add up."""

    table: str


@dataclass(frozen=True)
class ReplayDeadLetters:
    """Apply open dead letters of a stg table, where each would have been.

    Args:
        at: (partition, offset) of some of them; empty for all.
    """

    table: str
    at: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class DropDeadLetters:
    """Let open dead letters of a stg table be; `at` as in `ReplayDeadLetters`."""

    table: str
    reason: str
    at: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Describe:
    table: str


@dataclass(frozen=True)
class Explain:
    """`history`: with the decisions of past refreshes."""

    table: str
    history: bool = False


@dataclass(frozen=True)
class Suspend:
    table: str


@dataclass(frozen=True)
class Resume:
    table: str


@dataclass(frozen=True)
class Alter:
    """One property set; None: the table's file counts again."""

    table: str
    what: Property
    value: str | None


@dataclass(frozen=True)
class SetImmutable:
    """`ALTER … SET IMMUTABLE WHERE (column < 'label')`; None: `RESET IMMUTABLE`."""

    table: str
    before: str | None


@dataclass(frozen=True)
class Create:
    """`CREATE [OR ALTER] MATERIALIZED TABLE …`: the text is the table's file."""

    text: str
    or_alter: bool


@dataclass(frozen=True)
class AlterQuery:
    """`ALTER … AS <query>`."""

    table: str
    query: str


@dataclass(frozen=True)
class Rollback:
    """`ALTER … ROLLBACK`: the definition before the present one."""

    table: str


@dataclass(frozen=True)
class Rewind:
    """`ALTER … REWIND TO`: a version, or the time (with a zone) whose newest version is meant."""

    table: str
    to: int | datetime
    cascade: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Resync:
    """`ALTER … RESYNC`: all of a table anew from what it reads, then it goes on from there.

    Args:
        where: only rows of a stg table that this condition holds for; "" for all.
    """

    table: str
    dry_run: bool = False
    where: str = ""


@dataclass(frozen=True)
class Erase:
    """`ALTER … ERASE KEY`: what history holds of a row that the source has deleted.

    Args:
        key: its columns with their values as text; None for the only column.
        history: with the older versions of tables downstream that do not carry the key.
    """

    table: str
    key: tuple[tuple[str | None, str], ...]
    history: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Drop:
    """`DROP MATERIALIZED TABLE`. No `table`: `IF EXISTS`, and it does not."""

    table: str | None


@dataclass(frozen=True)
class Apply:
    """The tables become what the files declare; a `dry_run` only says what that changes.

    `blue_green`: changed tables are built and proven aside, then swapped in.
    """

    dry_run: bool = False
    blue_green: bool = False


@dataclass(frozen=True)
class Refresh:
    """`labels` is None for a table without partitions. A `dry_run` of a cascade only says what it will do."""

    table: str
    labels: LabelRange | None
    cascade: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class RefreshNew:
    """What is new reaches a table that does not stream. `turn`: only if that one is still to come."""

    table: str
    turn: str | None = None


@dataclass(frozen=True)
class ShowWorkflows:
    pass


@dataclass(frozen=True)
class ShowCosts:
    """What work for tables has taken, in the present hour and so many before it."""

    hours: int


@dataclass(frozen=True)
class Verify:
    """No `tables` means all of them. `repair`: what differs is computed and compared again."""

    tables: tuple[str, ...]
    labels: LabelRange | None
    source: bool
    repair: bool = False


@dataclass(frozen=True)
class Check:
    table: str
    labels: LabelRange | None


@dataclass(frozen=True)
class Changes:
    """Changelog rows from `start` on; `reader` remembers how far its subscriber has come."""

    table: str
    start: Start = None
    reader: str | None = None


@dataclass(frozen=True)
class ShowReaders:
    table: str | None


@dataclass(frozen=True)
class DropReader:
    reader: str
    table: str


@dataclass(frozen=True)
class LoadSource:
    """The bulk snapshot of a source that no connector reads yet."""

    source: str


@dataclass(frozen=True)
class Publish:
    """`ALTER … PUBLISH`: a published table compared with all rows of its table, and mended."""

    table: str
    dry_run: bool = False


ParsedStatement = (
    Select
    | ShowTables
    | ShowPartitions
    | ShowChecks
    | ShowDeadLetters
    | ShowQuarantine
    | ShowAccounting
    | ReplayDeadLetters
    | DropDeadLetters
    | ShowReaders
    | DropReader
    | Describe
    | Explain
    | Suspend
    | Resume
    | Alter
    | SetImmutable
    | Create
    | AlterQuery
    | Rollback
    | Rewind
    | Resync
    | Erase
    | Drop
    | Apply
    | Refresh
    | RefreshNew
    | ShowWorkflows
    | ShowCosts
    | Publish
    | Verify
    | Check
    | Changes
    | LoadSource
)
