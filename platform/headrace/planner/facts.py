"""What a planner needs to know of a query, as plain data. `extract.py` reads it from the syntax tree once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.spec.model import Reference, TableName


@dataclass(frozen=True)
class Refusal:
    """Why a strategy, a column or a leaf does not serve, in words for a user."""

    reason: str


def shortened(text: str) -> str:
    """SQL as a message quotes it."""
    return f"`{text if len(text) <= 60 else text[:59] + '…'}`"


@dataclass(frozen=True)
class Origin:
    """A column of one source of a SELECT: `source` is the index into `Level.sources`."""

    source: int
    column: str


class Side(StrEnum):
    """How a source comes into its SELECT."""

    FROM = "FROM"
    INNER = "INNER JOIN"
    LEFT = "LEFT JOIN"


@dataclass(frozen=True)
class Source:
    """One relation of a FROM clause: a leaf (`reference` is set) or a subquery or CTE (`level` is set).

    `qualifiers` is what may stand before a column of it: `(alias,)`, or without an alias the parts of the
    table's name. Names that are compared are lower case here; `columns` keep their spelling.
    """

    qualifiers: tuple[str, ...]
    columns: tuple[str, ...]
    side: Side
    reference: int | None = None
    level: Level | None = None

    @property
    def optional(self) -> bool:
        """Whether its columns may be padded with NULL."""
        return self.side is Side.LEFT


@dataclass(frozen=True)
class Output:
    """A column of a SELECT list. `origin` is set where it is a plain copy of a source's column."""

    name: str
    origin: Origin | None
    text: str


@dataclass(frozen=True)
class Equality:
    """A conjunct `left = right` (or `<=>`) between two sources.

    `introduced` is the source whose ON or USING clause it stands in; None for WHERE.
    """

    left: Origin
    right: Origin
    null_safe: bool
    introduced: int | None


@dataclass(frozen=True)
class WindowFacts:
    """PARTITION BY and ORDER BY of one OVER clause, as far as they are plain columns."""

    partition: frozenset[Origin]
    order: frozenset[Origin]
    text: str


@dataclass(frozen=True)
class Level:
    """One SELECT. `grouping` is None where nothing is aggregated, and empty for a global aggregate."""

    sources: tuple[Source, ...]
    outputs: tuple[Output, ...]
    equalities: tuple[Equality, ...] = ()
    grouping: frozenset[Origin] | None = None
    plain_grouping: bool = False  # every GROUP BY item is a plain column
    windows: tuple[WindowFacts, ...] = ()
    distinct: bool = False
    generator: str | None = None  # a function that makes several rows of one

    @property
    def mixes_rows(self) -> bool:
        """Whether an output row depends on more than one row of the FROM clause."""
        return self.grouping is not None or self.distinct or bool(self.windows)

    def output(self, name: str) -> Output | None:
        """The one output of that name, whatever its case; None where there is none or more than one."""
        found = [o for o in self.outputs if o.name.lower() == name.lower()]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class QueryFacts:
    """A table's query. Either `root` is set, or `obstacle` says what stops every strategy but FULL."""

    table: TableName
    columns: tuple[str, ...]
    primary_key: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    references: tuple[Reference, ...]
    reference_keys: tuple[tuple[str, ...], ...]
    root: Level | None
    obstacle: str | None = None

    def name_of(self, reference: int) -> str:
        """A leaf as a message names it."""
        found = self.references[reference]
        twice = sum(r.upstream == found.upstream for r in self.references) > 1
        return f"{found.upstream} (as {found.alias})" if twice else str(found.upstream)
