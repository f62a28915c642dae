"""What becomes of a captured table's columns when its source changes them."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, replace

from headrace.sources.columns import SourceColumn, absent
from headrace.sources.schema import SourceSchema
from headrace.spec.model import SchemaChangeBehavior as Behavior


@dataclass(frozen=True)
class SchemaChange:
    """How two schemas of a captured table differ.

    Args:
        retyped: name, PostgreSQL type before and now of columns that are read otherwise.
        key: the primary key now, where it is another one.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    retyped: tuple[tuple[str, str, str], ...] = ()
    key: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = [f"column `{name}` is not there any more" for name in self.dropped]
        said += [f"column `{name}` is new" for name in self.added]
        said += [f"column `{name}` is a {now}, was a {was}" for name, was, now in self.retyped]
        if self.key:
            said.append(f"its key is ({', '.join(self.key)})")
        return ", ".join(said)


def change(known: SourceSchema, now: SourceSchema) -> SchemaChange | None:
    """What changes how rows are read; None where nothing does."""
    if known.digest == now.digest:
        return None
    was = {c.name: c for c in known.columns if not c.dropped}
    there = {c.name: c for c in now.columns if not c.dropped}
    return SchemaChange(
        tuple(name for name in there if name not in was),
        tuple(name for name in was if name not in there),
        tuple((n, was[n].type, c.type) for n, c in there.items() if n in was and _read(c) != _read(was[n])),
        now.key if now.key != known.key else (),
    )


def refused(found: SchemaChange, known: SourceSchema, now: SourceSchema, behavior: Behavior) -> str | None:
    """Why a person is to decide about the change; None where the behavior says what to do."""
    if behavior is Behavior.EXCEPTION:
        return "'schema.change.behavior' is 'exception'"
    if behavior in (Behavior.EVOLVE, Behavior.TRY_EVOLVE):
        return None
    if found.key:
        return "another key tells its rows apart"
    was, there = ({c.name: c for c in schema.columns} for schema in (known, now))
    for name, before, after in found.retyped:
        if behavior is Behavior.IGNORE or not widens(was[name].spark, there[name].spark):
            return f"a {after} need not hold what a {before} does"
    return None


def followed(
    known: SourceSchema, now: SourceSchema, behavior: Behavior, named: Set[str] = frozenset()
) -> SourceSchema:
    """The columns that are read from now on. Dropped ones keep their places.

    Args:
        named: columns, in lower case, that a query names: they stay although they are dropped, so that it can
            be said who reads them.
    """
    there = {c.name: c for c in now.columns}
    evolves = behavior in (Behavior.EVOLVE, Behavior.TRY_EVOLVE)
    columns: list[SourceColumn] = []
    for column in known.columns:
        if column.name in there:
            columns.append(there.pop(column.name))
        elif not evolves or column.name.lower() in named:
            columns.append(absent(column))
    if behavior is not Behavior.IGNORE:
        columns += there.values()
    # Of a table that has lost its key the stored rows are told apart as before.
    return replace(now, columns=tuple(columns), key=now.key or known.key)


_INTEGERS = ("smallint", "int", "bigint")
_DIGITS = {"smallint": 5, "int": 10, "bigint": 19}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def widens(was: str, now: str) -> bool:
    """Whether every value of one Spark type is one of another, which SQL over it takes the same way."""
    if was == now or (was, now) == ("float", "double"):
        return True
    if was in _INTEGERS and now in _INTEGERS:
        return _INTEGERS.index(was) <= _INTEGERS.index(now)
    if (to := _DECIMAL.fullmatch(now)) is None:
        return False
    digits, scale = int(to[1]), int(to[2])
    if was in _DIGITS:
        return digits - scale >= _DIGITS[was]
    before = _DECIMAL.fullmatch(was)
    if before is None:
        return False
    return scale >= int(before[2]) and digits - scale >= int(before[1]) - int(before[2])


def _read(column: SourceColumn) -> tuple[str, ...]:
    return column.spark, column.json, column.decode, column.select
