"""Every table as a view of its live rows: `SELECT … FROM dws.user_hour`, here and over Spark Connect."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from headrace.engine.read.travel import asked_version, clause_end
from headrace.engine.spark.query import temporary_views
from headrace.engine.table.table import Registry, Table
from headrace.errors import TerminalError, UnknownName, did_you_mean
from headrace.spec.model import QUARANTINE, TableName
from headrace.storage.location import spark_path
from headrace.store.frames import local
from headrace.store.live.head import Cold
from headrace.store.schema import DELETE, INSERT, KIND, UPDATE_AFTER, UPDATE_BEFORE, VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

VIEW_SECONDS = 600.0
"""Time between two renewals of a table's view: each costs Spark a second."""

FIRST_LOAD_SECONDS = 15.0
"""How long the views of a warehouse without a row come after its flows: its first load takes the cores."""


def live_sql(table: Table) -> str:
    """The live read as SQL: the pinned snapshot, with the changelog after it folded in.

    The text is bound to one snapshot version and open-ended in the changelog, so it stays right until the
    snapshot is cleaned up; it is renewed now and then, to keep the tail short.
    """
    store, schema = table.store, table.store.schema
    changelog, snapshot = spark_path(store.changelog.path), spark_path(store.snapshot.path)
    names = ", ".join(f"`{n}`" for n in schema.names)
    key = ", ".join(f"`{n}`" for n in schema.key)
    on = " AND ".join(f"s.`{k}` <=> t.`{k}`" for k in schema.key)
    return (
        f"WITH t AS (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {VERSION} DESC, "
        f"CASE WHEN {KIND} IN ('{INSERT}', '{UPDATE_AFTER}') THEN 0 ELSE 1 END) AS _n "
        f"FROM delta.`{changelog}` WHERE {VERSION} > {store.pin.compacted}) WHERE _n = 1) "
        f"SELECT {names} FROM delta.`{snapshot}` VERSION AS OF {store.pin.delta} s "
        f"WHERE NOT EXISTS (SELECT 1 FROM t WHERE {on}) "
        f"UNION ALL SELECT {names} FROM t WHERE {KIND} NOT IN ('{UPDATE_BEFORE}', '{DELETE}')"
    )


class Views:
    """The views of all tables in one session's catalog, made again now and then.

    Args:
        shown: whether anybody sees them. Else none are made, which takes Spark a tenth of a second each.
    """

    def __init__(self, spark: SparkSession, *, shown: bool = True) -> None:
        self._spark = spark
        self._shown = shown
        self._made: dict[TableName, float] = {}
        self._locks: dict[TableName, threading.Lock] = {}
        self._maker: threading.Thread | None = None

    def begin(self, tables: Iterable[Table], stop: threading.Event) -> None:
        """Make all views in a thread: flows need none of them, and a cold JVM takes a second for each."""
        if not self._shown:
            return
        work = (list(tables), stop)
        self._maker = threading.Thread(target=self._make, args=work, name="views", daemon=True)
        self._maker.start()

    def _make(self, tables: list[Table], stop: threading.Event) -> None:
        if not any(table.store.version for table in tables):
            stop.wait(FIRST_LOAD_SECONDS)
        for table in tables:
            if stop.is_set():
                return
            try:
                with self._lock(table.name):
                    if table.name not in self._made:
                        self._renew(table)
            except Exception:
                log.exception("view of %s", table.name)

    def join(self) -> None:
        """Wait until no view is being made."""
        if self._maker is not None:
            self._maker.join()

    def renew(self, table: Table) -> None:
        """Create or replace the table's view, so that it reads the newest snapshot."""
        if self._shown:
            with self._lock(table.name):
                self._renew(table)

    def _lock(self, name: TableName) -> threading.Lock:
        """One thread at a time makes a view: Spark fails where two create the same one."""
        return self._locks.setdefault(name, threading.Lock())

    def _renew(self, table: Table) -> None:
        self._made[table.name] = time.monotonic()
        self._spark.sql(f"CREATE DATABASE IF NOT EXISTS {table.name.layer}")
        self._spark.sql(f"CREATE OR REPLACE VIEW {table.name} AS {live_sql(table)}")

    def drop(self, name: TableName) -> None:
        """Let the view of a table go that is no more."""
        if not self._shown:
            return
        with self._lock(name):
            self._made.pop(name, None)
            self._spark.sql(f"DROP VIEW IF EXISTS {name}")

    def renew_if_old(self, table: Table) -> None:
        """Renew the table's view if it is old: an older one is right too, only its tail is longer."""
        made = self._made.get(table.name)
        if made is not None and time.monotonic() - made >= VIEW_SECONDS:
            self.renew(table)


OneCut = Callable[[Collection[TableName]], Mapping[TableName, int]]
"""The versions at which tables are read together; those that it leaves out are read at their newest."""


def select(
    spark: SparkSession,
    registry: Registry,
    text: str,
    quarantine: Callable[[Table], DataFrame],
    one_cut: OneCut,
) -> DataFrame:
    """A user's SELECT over live rows, each table at one consistent version: the one asked for, else the
    newest, of several tables that of their newest common cut.

    Args:
        quarantine: what is read where the query names a table's quarantine.
        one_cut: asked about tables that are named without a version, where these are several names.
    Raises:
        UnknownName: a table that is not materialized here.
        TerminalError: Spark refuses the query, or there is no such version.
        TransientError: the tables do not come to stand at one cut.
    """
    from pyspark.errors import PySparkException

    tree = sqlglot.parse_one(text, dialect="spark")
    ctes = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    named = [
        (node, *_table(registry, node))
        for node in tree.find_all(exp.Table)
        if not isinstance(node.this, exp.Func) and (node.db or node.name not in ctes)
    ]
    live = [t.name for node, t, kept_out in named if not kept_out and node.args.get("version") is None]
    together = one_cut(set(live)) if len(live) > 1 else {}
    places, frames = [], []
    for node, table, kept_out in named:
        end = node.this.meta["end"] + 1
        if node.args.get("version") is not None:
            if kept_out:
                raise TerminalError(f"the quarantine of `{table.name}` is read as it is now, at no version")
            version, end = asked_version(table, node), clause_end(text, end)
            frames.append(table.store.frame(spark, version=version).select(*table.store.schema.names))
        elif kept_out:
            frames.append(quarantine(table))
        elif table.name in together:
            rows = table.store.frame(spark, version=together[table.name])
            frames.append(rows.select(*table.store.schema.names))
        else:
            frames.append(_rows(spark, table, pinned_columns(tree, node, table)))
        alias = "" if node.args.get("alias") else f" AS `{node.name}`"
        places.append((node.args["db"].meta["start"], end, alias))
    with temporary_views(spark, frames) as views:
        for (start, end, alias), view in sorted(zip(places, views, strict=True), reverse=True):
            text = text[:start] + view + alias + text[end:]
        try:
            return spark.sql(text)
        except PySparkException as error:
            raise TerminalError(str(error).strip().splitlines()[0]) from error


def _table(registry: Registry, node: exp.Table) -> tuple[Table, bool]:
    """The table that a query names, and whether it is its quarantine that is meant."""
    own, kept_out = node.name.lower(), node.name.lower().endswith(QUARANTINE)
    name = TableName(node.db.lower(), own.removesuffix(QUARANTINE))
    if name not in registry.tables or node.catalog:
        shown = ".".join(p for p in (node.catalog, node.db, node.name) if p)
        raise UnknownName(f"no table `{shown}`; {did_you_mean(shown, map(str, registry.tables))}")
    return registry[name], kept_out


def _rows(spark: SparkSession, table: Table, pinned: dict[str, str | int]) -> DataFrame:
    """The table's live rows; where the query pins columns, only the rows it can use."""
    store = table.store
    if not pinned:
        return store.frame(spark).select(*store.schema.names)
    try:
        found = store.head().find(tuple(pinned), {tuple(pinned.values())})
    except Cold:
        return store.frame(spark).select(*store.schema.names)
    return local(spark, found, store.schema.columns)


def pinned_columns(tree: exp.Expr, node: exp.Table, table: Table) -> dict[str, str | int]:
    """Columns that the query compares with one literal, in a WHERE that every row must pass.

    Only a plain SELECT from this one table is looked at, and only literals of the column's own type: rows
    with another value can never reach the result, so leaving them out changes nothing.
    """
    scope = node.find_ancestor(exp.Select)
    where = scope.args.get("where") if scope is not None else None
    if scope is not tree or where is None or scope.args.get("joins") or tree.find(exp.Subquery):
        return {}
    types = dict(table.store.schema.columns)
    pinned: dict[str, str | int] = {}
    for term in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        term = term.unnest()
        if not isinstance(term, exp.EQ) or not isinstance(term.this, exp.Column):
            continue
        literal, name = term.expression, term.this.name.lower()
        if not isinstance(literal, exp.Literal):
            continue
        if literal.is_string and types.get(name) == "string":
            pinned[name] = literal.this
        elif literal.is_int and types.get(name) in ("int", "bigint"):
            pinned[name] = int(literal.this)
    return pinned
