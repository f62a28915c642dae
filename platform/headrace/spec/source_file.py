"""`layers/stg/<source>.source.yml`: captured tables become stg tables without anybody writing their files.

    tables: public\\..*                     # all that are captured, where it is left out
    tables.exclude: public\\.audit_.*
    route:
      - source-table: sales\\.(.*)
        sink-table: stg.sales_<>
        replace-symbol: <>
    transform:
      - source-table: public\\.users
        projection: \\*, upper(city) AS city_name
        filter: user_id > 0

The words are those of a pipeline of Flink CDC. Tables are `schema.table` by expressions as in Debezium's
lists: anchored, whatever the case, several of them with commas. Of rules the first one that matches counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from headrace.errors import Location, SpecError
from headrace.spec.model import NAME, TableName, TableSpec
from headrace.spec.sql.literals import quoted
from headrace.spec.syntax.nodes import Nodes

SUFFIX = ".source.yml"
_RULES = ("tables", "tables.exclude", "route", "transform")
_ROUTE = ("source-table", "sink-table", "replace-symbol", "description")
_TRANSFORM = ("source-table", "projection", "filter", "description")
_FORM = "a table is `stg.<name>`, and a name matches " + NAME.pattern

Names = tuple[re.Pattern[str], ...]


@dataclass(frozen=True)
class Route:
    """Which stg table a captured one becomes. `symbol` in `sink` stands for its name."""

    source: Names
    sink: str
    symbol: str
    location: Location


@dataclass(frozen=True)
class Transform:
    """What of a captured table's columns and rows is taken; "" for all of them."""

    source: Names
    projection: str
    filter: str


@dataclass(frozen=True)
class SourceFile:
    """
    Args:
        source: name of the connector whose captured tables are meant.
        tables, excluded: which of them; no expression: all, none.
    """

    source: str
    path: Path
    tables: Names = ()
    excluded: Names = ()
    routes: tuple[Route, ...] = ()
    transforms: tuple[Transform, ...] = ()

    @property
    def location(self) -> Location:
        """Of the file as a whole."""
        return Location(self.path, 1)

    def layer_files(
        self, captured: Collection[tuple[str, str]], taken: Mapping[TableName, tuple[str, str] | None]
    ) -> dict[TableName, str]:
        """The layer files of captured tables that no stg table reads.

        Args:
            captured: schema and name of the tables.
            taken: the stg tables that there are, and what of this source each reads.
        Raises:
            SpecError: two would be one stg table, or one a table whose name is no name.
        """
        read, made = set(taken.values()), dict(taken)
        found: dict[TableName, str] = {}
        for schema, table in sorted(set(captured) - read):
            if not self.means(schema, table):
                continue
            name, where = self._name(schema, table)
            if name in made:
                other = ".".join(made[name] or ("something else",))
                raise SpecError(
                    f"`{schema}.{table}` and `{other}` would both be `{name}`",
                    where,
                    "give them names by `route`, and read both in a dwd table with UNION ALL",
                )
            made[name] = schema, table
            found[name] = self._text(name, schema, table)
        return found

    def read_by(self, spec: TableSpec) -> tuple[str, str] | None:
        """What of the source a table reads, by schema and name; None for nothing."""
        reads = spec.source
        if reads is None or reads.source != self.source:
            return None
        return reads.schema, reads.table

    def means(self, schema: str, table: str) -> bool:
        """Whether the captured table is to be a stg table."""
        name = f"{schema}.{table}"
        return (not self.tables or _matches(self.tables, name)) and not _matches(self.excluded, name)

    def _name(self, schema: str, table: str) -> tuple[TableName, Location]:
        route = next((r for r in self.routes if _matches(r.source, f"{schema}.{table}")), None)
        where = route.location if route is not None else self.location
        text = f"stg.{table}" if route is None else route.sink
        if route is not None and route.symbol:
            text = text.replace(route.symbol, table)
        layer, _, name = text.lower().partition(".")
        if layer != "stg" or not NAME.fullmatch(name):
            raise SpecError(
                f"`{schema}.{table}` would be `{text}`", where, f"{_FORM}: give it one by `route`"
            )
        return TableName(layer, name), where

    def _text(self, name: TableName, schema: str, table: str) -> str:
        rule = next((t for t in self.transforms if _matches(t.source, f"{schema}.{table}")), None)
        projection = rule.projection.replace("\\*", "*") if rule is not None and rule.projection else "*"
        where = f"\nWHERE {rule.filter}" if rule is not None and rule.filter else ""
        parts = ".".join(_quoted(part) for part in (self.source, schema, table))
        return (
            f"-- layers/stg/{name.table}.sql\n"
            f"-- Written once, by {self.path.name}: what stands here counts.\n"
            f"CREATE MATERIALIZED TABLE {name}\n"
            "FRESHNESS = DOWNSTREAM\n"
            f"AS\nSELECT {projection}\nFROM {parts}{where}\n"
        )


def source_files(directory: Path) -> list[SourceFile]:
    """Those of a project. Raises SpecError: one is wrong."""
    return [load_source_file(path) for path in sorted((directory / "layers" / "stg").glob(f"*{SUFFIX}"))]


def load_source_file(path: Path) -> SourceFile:
    """Read one; an empty one means all tables. Raises SpecError with file, line and column."""
    reader, source = _Reader(path), path.name.removesuffix(SUFFIX)
    root = reader.root()
    if root is None:
        return SourceFile(source, path)
    fields = reader.mapping(root, "the file", allowed=_RULES)
    return SourceFile(
        source,
        path,
        reader.names(fields, "tables"),
        reader.names(fields, "tables.exclude"),
        tuple(reader.route(node) for node in reader.rules(fields, "route")),
        tuple(reader.transform(node) for node in reader.rules(fields, "transform")),
    )


class _Reader(Nodes):
    def rules(self, fields: Mapping[str, yaml.Node], what: str) -> list[yaml.Node]:
        return self.sequence(fields[what], what) if what in fields else []

    def names(self, fields: Mapping[str, yaml.Node], what: str) -> Names:
        """The expressions of a field, none where it is not there."""
        node = fields.get(what)
        if node is None:
            return ()
        try:
            entries = self.text(node, what).split(",")
            return tuple(re.compile(entry.strip(), re.IGNORECASE) for entry in entries if entry.strip())
        except re.error as error:
            raise self.error(node, f"`{what}` is no expression: {error}") from None

    def route(self, node: yaml.Node) -> Route:
        fields = self._rule(node, "a route", _ROUTE, "sink-table")
        said = {key: self.text(fields[key], key) for key in ("sink-table", "replace-symbol") if key in fields}
        names = self.names(fields, "source-table")
        return Route(names, said["sink-table"], said.get("replace-symbol", ""), self.location(node))

    def transform(self, node: yaml.Node) -> Transform:
        fields = self._rule(node, "a transform", _TRANSFORM)
        said = {key: self.text(fields[key], key) for key in ("projection", "filter") if key in fields}
        names = self.names(fields, "source-table")
        return Transform(names, said.get("projection", ""), said.get("filter", ""))

    def _rule(
        self, node: yaml.Node, what: str, allowed: tuple[str, ...], *needed: str
    ) -> dict[str, yaml.Node]:
        fields = self.mapping(node, what, allowed=allowed)
        for key in ("source-table", *needed):
            if key not in fields:
                raise self.error(node, f"{what} needs a `{key}`")
        return fields


def _matches(names: Names, name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in names)


def _quoted(part: str) -> str:
    return part if NAME.fullmatch(part) else quoted(part)
