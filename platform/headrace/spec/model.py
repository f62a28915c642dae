"""What one layer file declares. Plain frozen data: no Spark, no network."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.errors import Location
from headrace.spec.partitions.completion import Completion, RunMode
from headrace.spec.publishing import Target
from headrace.spec.syntax.text import advance

if TYPE_CHECKING:
    from headrace.spec.calendar import Calendar
    from headrace.spec.ddl.start import StartMode

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
LAYERS = ("stg", "dwd", "dws")

QUARANTINE = "$quarantine"
"""After a table's name: its quarantine, as a table that a SELECT reads."""


class RefreshMode(StrEnum):
    CONTINUOUS = "CONTINUOUS"
    INCREMENTAL = "INCREMENTAL"
    FULL = "FULL"


class RefreshPolicy(StrEnum):
    AUTO = "AUTO"
    INCREMENTAL = "INCREMENTAL"
    INCREMENTAL_STRICT = "INCREMENTAL STRICT"
    FULL = "FULL"


class Violation(StrEnum):
    WARN = "WARN"
    DROP_ROW = "DROP ROW"
    QUARANTINE = "QUARANTINE"
    FAIL = "FAIL"

    @property
    def removes_rows(self) -> bool:
        """Whether rows that violate it are left out of the table."""
        return self in (Violation.DROP_ROW, Violation.QUARANTINE)


class CorrectionPolicy(StrEnum):
    """What a table does with its upstream's backfill corrections: ignore them, carry them through its query
    like any other change, or run the partitions (or keys) that they touch again and take what differs."""

    SKIP = "skip"
    PROPAGATE = "propagate"
    RECOMPUTE = "recompute"


class SchemaChangeBehavior(StrEnum):
    """What stg tables do when their source's columns change, the strictest first. Flink CDC's words.

    EXCEPTION: they halt at every change of a column that they read.
    IGNORE: they keep the columns that they have; dropped ones are NULL.
    LENIENT: columns that are new come in, dropped ones stay and are NULL, types may become wider.
    TRY_EVOLVE: as EVOLVE, and as IGNORE where tables cannot follow.
    EVOLVE: they have the columns that the source has.
    """

    EXCEPTION = "exception"
    IGNORE = "ignore"
    LENIENT = "lenient"
    TRY_EVOLVE = "try_evolve"
    EVOLVE = "evolve"


@dataclass(frozen=True, order=True)
class TableName:
    """`layer.table`, e.g. `dws.user_hour`."""

    layer: str
    table: str

    def __str__(self) -> str:
        return f"{self.layer}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> TableName:
        layer, _, table = text.partition(".")
        return cls(layer, table)


@dataclass(frozen=True, order=True)
class SourceTable:
    """A captured table, as a stg file names it: `shop.public.orders`."""

    source: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.source}.{self.schema}.{self.table}"

    @property
    def topic(self) -> str:
        """Debezium's topic: the source's name is the connector's `topic.prefix`."""
        return str(self)


@dataclass(frozen=True)
class Constraint:
    """`CONSTRAINT name EXPECT (expression) ON VIOLATION action`; a row passes only where it is TRUE."""

    name: str
    expression: str
    on_violation: Violation
    location: Location


@dataclass(frozen=True)
class Reference:
    """One occurrence of an upstream in the query text. `start:end` is the slice of `query` that names it."""

    upstream: TableName | SourceTable
    alias: str
    start: int
    end: int
    location: Location


@dataclass(frozen=True)
class TableSpec:
    """One materialized table.

    `query` is the text after AS, unchanged, with `${start_date}`/`${end_date}` in it. `query_ast` is the
    same text parsed by sqlglot (dialect spark) and is never used to generate what Spark runs.
    """

    name: TableName
    path: Path
    query: str
    query_ast: exp.Query = field(repr=False, compare=False, hash=False)
    query_line: int  # line of the file on which `query` begins
    references: tuple[Reference, ...]
    primary_key: tuple[str, ...]  # empty for stg: the key comes from the source
    freshness: timedelta | None  # None: DOWNSTREAM
    partitioned_by: tuple[str, ...] = ()
    partition_format: str | None = None  # e.g. 'yyyyMMddHH' of the one partition field that has a formatter
    refresh_mode: RefreshMode | None = None  # None: follows from the freshness
    refresh_policy: RefreshPolicy = RefreshPolicy.AUTO
    correction_policy: CorrectionPolicy = CorrectionPolicy.RECOMPUTE
    constraints: tuple[Constraint, ...] = ()
    comment: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    query_column: int = 1  # column of the file at which `query` begins
    key_location: Location | None = None  # of PRIMARY KEY
    partition_location: Location | None = None  # of PARTITIONED BY
    definition: str = field(default="", repr=False, compare=False)  # the whole file
    calendar: Calendar | None = None  # of the freshness
    start: StartMode | None = None  # START_MODE; None: FROM_BEGINNING
    immutable_before: str | None = None  # label of IMMUTABLE WHERE (column < label)
    completion: Completion = field(default_factory=Completion)  # when a partition is complete, and what then
    schema_change: SchemaChangeBehavior | None = None  # None: the project's
    quarantine_limit: int | None = None  # rows in quarantine beyond which the table is not well
    owners: tuple[str, ...] = ()  # teams and persons, as Dagster has them
    target: Target | None = None  # where its rows are published
    freshness_origin: str = field(default="its layer file", compare=False)  # who says it, in words

    def locate(self, offset: int) -> Location:
        """Where in the file the character at `offset` of `query` stands."""
        return advance(Location(self.path, self.query_line, self.query_column), self.query[:offset])

    @property
    def upstreams(self) -> tuple[TableName | SourceTable, ...]:
        """Distinct upstreams in order of first appearance."""
        return tuple(dict.fromkeys(r.upstream for r in self.references))

    @property
    def source(self) -> SourceTable | None:
        """The captured table a stg table reads, or None for a derived table."""
        first = self.references[0].upstream if self.references else None
        return first if isinstance(first, SourceTable) else None

    @property
    def run_mode(self) -> RunMode:
        return self.completion.run_mode

    @property
    def partition_column(self) -> str | None:
        return self.partitioned_by[0] if self.partitioned_by else None
