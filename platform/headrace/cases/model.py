"""`<table>.cases.yml`: rows that are given to a table's upstreams, and the rows that it has then.

cases:
  - name: an_order_that_is_cancelled_counts
    about: Only a positive amount keeps an order out
    given:
      dwd.orders:
        - {order_id: 1, user_id: 7, amount: 10.00, logdate: '2026112010'}
    expect:
      - {user_id: 7, logdate: '2026112010', cnt: 1, amount: 10.00}
    then:                                  # what happens next, as often as one likes
      - delete: {dwd.orders: [{order_id: 1}]}
        expect: []

Of a stg table, `given` names the captured table, and the file says once what that one is:

source:
  columns: {order_id: bigint, user_id: bigint, amount: 'numeric(12,2)'}   # as its database names the types
  key: [order_id]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.errors import Location, SpecError, did_you_mean
from headrace.spec.model import SourceTable, TableName, TableSpec
from headrace.spec.syntax.nodes import Nodes

SUFFIX = ".cases.yml"

_FIELDS = ("name", "about", "given", "expect", "then")
_STEP = ("put", "delete", "expect")
_SOURCE = ("columns", "key")

Upstream = TableName | SourceTable


@dataclass(frozen=True)
class GivenRow:
    """A row as the file has it: some columns' values."""

    values: Mapping[str, Any]
    location: Location


@dataclass(frozen=True)
class Step:
    """What happens to the upstreams' rows, and the table's rows after it.

    Args:
        put: rows that come, or are changed: a row of a known key keeps what is not named.
        delete: rows that go; they name their key.
        expect: all rows of the table after it, with the columns that are compared.
    """

    put: Mapping[Upstream, tuple[GivenRow, ...]]
    delete: Mapping[Upstream, tuple[GivenRow, ...]]
    expect: tuple[GivenRow, ...]
    location: Location


@dataclass(frozen=True)
class Case:
    name: str
    about: str
    steps: tuple[Step, ...]
    location: Location


@dataclass(frozen=True)
class SourceColumns:
    """A captured table as its database declares it.

    Args:
        columns: type by name, in the words of the database.
        key: its primary key.
    """

    columns: Mapping[str, str]
    key: tuple[str, ...]
    location: Location


@dataclass(frozen=True)
class Cases:
    """The cases of one table. Names are unique.

    Args:
        source: of a stg table: what it reads.
    """

    table: TableName
    path: Path
    cases: tuple[Case, ...]
    source: SourceColumns | None = None


def cases_file(spec: TableSpec) -> Path:
    """Where the table's cases are, or would be: beside its layer file."""
    return spec.path.with_name(f"{spec.path.stem}{SUFFIX}")


def cases_of(spec: TableSpec) -> Cases | None:
    """The cases beside the table's layer file; None where there is no such file.

    Raises:
        SpecError: with file, line and column.
    """
    path = cases_file(spec)
    return _Reader(path, spec).read() if path.is_file() else None


class _Reader(Nodes):
    """Turns YAML nodes into cases."""

    def __init__(self, path: Path, spec: TableSpec) -> None:
        super().__init__(path)
        self.spec = spec
        self.upstreams = {str(name): name for name in spec.upstreams}

    def read(self) -> Cases:
        root = self.root()
        if root is None:
            return Cases(self.spec.name, self.path, ())
        fields = self.mapping(root, "the file", allowed=("source", "cases"))
        source = None
        if "source" in fields:
            if self.spec.source is None:
                raise self.error(
                    fields["source"], f"`{self.spec.name}` reads no source", "only stg tables have a `source`"
                )
            source = self._source(fields["source"])
        cases = tuple(self._cases(fields["cases"])) if "cases" in fields else ()
        return Cases(self.spec.name, self.path, cases, source)

    def _source(self, node: yaml.Node) -> SourceColumns:
        fields = self.mapping(node, "`source`", allowed=_SOURCE)
        for name in _SOURCE:
            if name not in fields:
                raise self.error(node, f"`source` needs `{name}`")
        columns = {
            name: self.text(kind, f"the type of `{name}`")
            for name, kind in self.mapping(fields["columns"], "`columns`").items()
        }
        key = []
        for column in self.sequence(fields["key"], "key"):
            name = self.text(column, "key")
            if name not in columns:
                raise self.error(column, f"there is no column `{name}`", did_you_mean(name, columns))
            key.append(name)
        return SourceColumns(columns, tuple(key), self.location(node))

    def _cases(self, node: yaml.Node) -> Iterator[Case]:
        seen: dict[str, Location] = {}
        for one in self.sequence(node, "cases"):
            case = self._case(one)
            if (first := seen.get(case.name)) is not None:
                raise self.error(one, f"two cases are called `{case.name}` (the first in line {first.line})")
            seen[case.name] = case.location
            yield case

    def _case(self, node: yaml.Node) -> Case:
        fields = self.mapping(node, "a case", allowed=_FIELDS)
        for name in ("name", "expect"):
            if name not in fields:
                raise self.error(node, f"a case needs `{name}`")
        name = self.text(fields["name"], "name")
        about = self.text(fields["about"], "about") if "about" in fields else ""
        given = self._upstreams(fields["given"], "given") if "given" in fields else {}
        steps = [Step(given, {}, self._rows(fields["expect"], "expect"), self.location(node))]
        if "then" in fields:
            steps += map(self._step, self.sequence(fields["then"], "then"))
        return Case(name, about, tuple(steps), self.location(node))

    def _step(self, node: yaml.Node) -> Step:
        fields = self.mapping(node, "a step of `then`", allowed=_STEP)
        if "expect" not in fields:
            raise self.error(node, "a step of `then` needs `expect`: the table's rows after it")
        put, delete = (
            self._upstreams(fields[what], what) if what in fields else {} for what in ("put", "delete")
        )
        return Step(put, delete, self._rows(fields["expect"], "expect"), self.location(node))

    def _upstreams(self, node: yaml.Node, what: str) -> dict[Upstream, tuple[GivenRow, ...]]:
        found = {}
        for name, rows in self.mapping(node, f"`{what}`").items():
            if name not in self.upstreams:
                hint = did_you_mean(name, self.upstreams) or f"it reads {', '.join(self.upstreams)}"
                raise self.error(rows, f"`{self.spec.name}` does not read `{name}`", hint)
            found[self.upstreams[name]] = self._rows(rows, name)
        return found

    def _rows(self, node: yaml.Node, what: str) -> tuple[GivenRow, ...]:
        return tuple(
            GivenRow({c: self.value(v) for c, v in self.mapping(row, "a row").items()}, self.location(row))
            for row in self.sequence(node, what)
        )


def unknown_column(row: GivenRow, known: list[str], of: str) -> SpecError | None:
    """What is wrong with a row that names a column which is not there."""
    for name in row.values:
        if name not in known:
            hint = did_you_mean(name, known) or f"its columns are {', '.join(known)}"
            return SpecError(f"`{of}` has no column `{name}`", row.location, hint)
    return None
