"""What a planner needs to know of a query, as plain data. `extract.py` reads it from the syntax tree once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.planner.sql.state import State
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
    """A column of one source of a SELECT: `source` is the index into `Level.sources`.

    A negative `source` is a column that a FULL JOIN merges (USING, or COALESCE of both sides of its `=`):
    `-1 - source` is the index into `Level.merged`.
    """

    source: int
    column: str


class Side(StrEnum):
    """How a source comes into its SELECT."""

    FROM = "FROM"
    INNER = "INNER JOIN"
    LEFT = "LEFT JOIN"
    RIGHT = "RIGHT JOIN"
    FULL = "FULL JOIN"
    TEST = "subquery"  # EXISTS, IN, a scalar subquery, a SEMI or ANTI JOIN: adds no row and no name


@dataclass(frozen=True)
class Source:
    """One relation of a SELECT: a leaf (`reference` is set) or a subquery or CTE (`level` is set).

    `qualifiers` is what may stand before a column of it: `(alias,)`, or without an alias the parts of the
    table's name. Names that are compared are lower case here; `columns` keep their spelling.
    """

    qualifiers: tuple[str, ...]
    columns: tuple[str, ...]
    side: Side
    reference: int | None = None
    level: Level | Union | None = None


@dataclass(frozen=True)
class Output:
    """A column of a SELECT list. `origin` is set where it is a plain copy of a source's column."""

    name: str
    origin: Origin | None
    text: str


@dataclass(frozen=True)
class Equality:
    """A conjunct `left = right` (or `<=>`) between two sources.

    `introduced` is the source whose ON or USING clause it stands in, or the subquery that it correlates;
    None for WHERE. `null_aware` is an IN whose UNKNOWN counts (NOT IN): a NULL on the subquery's side, or
    an empty subquery, decides rows that the equality does not reach.
    """

    left: Origin
    right: Origin
    null_safe: bool
    introduced: int | None
    null_aware: bool = False


@dataclass(frozen=True)
class Correlation:
    """A conjunct `inner = outer` (or `<=>`) in the WHERE of a subquery. `outer` is a column of the SELECT
    that the subquery stands in. The subquery has `inner` as its output `#i`, i the place among these."""

    inner: Origin
    outer: Origin
    null_safe: bool


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
    correlations: tuple[Correlation, ...] = ()
    merged: tuple[tuple[Origin, ...], ...] = ()  # columns that a FULL JOIN merges: their parts

    @property
    def mixes_rows(self) -> bool:
        """Whether an output row depends on more than one row of the FROM clause."""
        return self.grouping is not None or self.distinct or bool(self.windows)

    @property
    def padded(self) -> frozenset[int]:
        """The sources whose columns may be NULL because a join found no row of theirs."""
        found: set[int] = set()
        for index, source in enumerate(self.sources):
            if source.side in (Side.RIGHT, Side.FULL):
                found.update(range(index))
            if source.side in (Side.LEFT, Side.FULL):
                found.add(index)
        return frozenset(found)

    def output(self, name: str) -> Output | None:
        """The one output of that name, whatever its case; None where there is none or more than one."""
        return _named(self.outputs, name)


@dataclass(frozen=True)
class Union:
    """UNION, INTERSECT or EXCEPT, with or without ALL: columns meet by their places."""

    branches: tuple[Level | Union, ...]
    outputs: tuple[Output, ...]  # names of the first branch, no origins

    def output(self, name: str) -> Output | None:
        """As `Level.output`."""
        return _named(self.outputs, name)


def _named(outputs: tuple[Output, ...], name: str) -> Output | None:
    """`@2` is the third output, whatever its name."""
    if name.startswith("@"):
        return outputs[int(name[1:])]
    found = [o for o in outputs if o.name.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def leaves_of(query: Level | Union) -> Iterator[int]:
    """The references that a query reads, each as often as it reads it."""
    if isinstance(query, Union):
        for branch in query.branches:
            yield from leaves_of(branch)
        return
    for source in query.sources:
        if source.reference is not None:
            yield source.reference
        elif source.level is not None:
            yield from leaves_of(source.level)


@dataclass(frozen=True)
class QueryFacts:
    """A table's query. Either `root` is set, or `obstacle` says what stops every strategy but FULL."""

    table: TableName
    columns: tuple[str, ...]
    primary_key: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    references: tuple[Reference, ...]
    reference_keys: tuple[tuple[str, ...], ...]
    root: Level | Union | None
    obstacle: str | None = None
    state: State | Refusal | None = None  # of an aggregating top SELECT, where `root` is set
    types: tuple[Mapping[str, str], ...] = ()  # by reference: column in lower case → Spark SQL type

    def type_of(self, reference: int, column: str) -> str | None:
        """The column's type, or None where it was not given."""
        return self.types[reference].get(column.lower()) if self.types else None

    def name_of(self, reference: int) -> str:
        """A leaf as a message names it."""
        found = self.references[reference]
        twice = sum(r.upstream == found.upstream for r in self.references) > 1
        return f"{found.upstream} (as {found.alias})" if twice else str(found.upstream)
