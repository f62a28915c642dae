"""A stored table's two Delta tables: how they are made, and whether they are what a definition needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltalake import CommitProperties, DeltaTable, Schema

from headrace.spec.sql.literals import quoted
from headrace.storage.location import Location, delta_table, spark_path, storage_options
from headrace.storage.permit import PERMIT
from headrace.store.delta.retained import Retained
from headrace.store.record.commits import Commit, latest, log_versions
from headrace.store.schema import VERSION, TableSchema, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.store.tables import StoredTable

_INEXACT = ("decimal", "float", "double", "binary", "array", "map", "struct", "boolean", "variant")
DEFINITION = "headrace.definition"
"""Table property of a snapshot: its layer file."""

WATERMARK = "headrace.watermark"
"""Table property of a snapshot: the watermark when a partition was last found complete, ISO 8601, UTC."""

_RECORD = "spark.databricks.delta.commitInfo.userMetadata"
_CHECKPOINTS = {"delta.checkpointInterval": "1000"}
_OF_CHANGES = {**_CHECKPOINTS, "delta.dataSkippingStatsColumns": VERSION}


def create(store: StoredTable, template: str, immutable_before: str = "") -> None:
    """Create both Delta tables where they do not exist. Readable by any Delta client of version 1."""
    record = Commit(str(store.name), "create", 0, template=template, immutable_before=immutable_before)
    schema = store.schema
    if latest(store.changelog.path) is None:
        _create(store.changelog.path, schema.logged, None, _OF_CHANGES, record)
    if latest(store.snapshot.path) is None:
        _create(store.snapshot.path, schema.stored, schema.partition, _of_rows(schema), record)


def describe(store: StoredTable, definition: str) -> None:
    """Let the snapshot's table property say what made its rows, for whoever meets it without headrace."""
    if definition:
        _tell(store, DEFINITION, definition)


def tell_watermark(store: StoredTable, watermark_ms: int) -> None:
    """Let a snapshot's table property say how far the table is, for whoever waits for its partitions.

    Args:
        watermark_ms: milliseconds since 1970.
    """
    with store.compacting:
        store.snapshot.check_open()
        _tell(
            store,
            WATERMARK,
            datetime.fromtimestamp(watermark_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        )
        store.reread()


def _tell(store: StoredTable, name: str, value: str) -> None:
    """The commit repeats the newest record: it changes no row."""
    table, found = delta_table(store.snapshot.path), latest(store.snapshot.path)
    PERMIT.check()
    if found is None or table.metadata().configuration.get(name) == value:
        return
    table.alter.set_table_properties(
        {name: value},
        raise_if_not_exists=False,
        commit_properties=CommitProperties(custom_metadata={"userMetadata": found[1].encode()}),
    )


def fits(store: StoredTable) -> bool:
    """Whether the Delta tables have the columns and the partition that the definition gives."""
    schema = store.schema
    places = (
        (store.changelog.path, schema.logged, None),
        (store.snapshot.path, schema.stored, schema.partition),
    )
    for path, columns, partition in places:
        table = delta_table(path)
        wanted = Schema.from_arrow(arrow_schema(columns))
        if _columns(table.schema()) != _columns(wanted):
            return False
        if table.metadata().partition_columns != ([partition] if partition else []):
            return False
    return True


def extend(spark: SparkSession, store: StoredTable) -> None:
    """Let both Delta tables have the columns that they lack, in their places, NULL in every row.

    Killed in between, the table does not fit: it begins again.
    """
    schema = store.schema
    for path, columns in ((store.changelog.path, schema.logged), (store.snapshot.path, schema.stored)):
        found = latest(path)
        assert found is not None, "the table was created"
        there = {field.name for field in delta_table(path).schema().fields}
        added, before = [], ""
        for name, kind in columns:
            if name not in there:
                place = f"AFTER {quoted(before)}" if before else "FIRST"
                added.append(f"{quoted(name)} {kind} {place}")
            before = name
        record = (
            replace(found[1], mode="maintenance", accounting={}) if path == store.changelog.path else found[1]
        )
        with _recorded(spark, record):
            spark.sql(f"ALTER TABLE delta.{quoted(spark_path(path))} ADD COLUMNS ({', '.join(added)})")


@contextmanager
def _recorded(spark: SparkSession, record: Commit) -> Iterator[None]:
    """For writers that take the record from the session alone; the others name their own, which counts."""
    spark.conf.set(_RECORD, record.encode())
    try:
        yield
    finally:
        spark.conf.unset(_RECORD)


def rebuild(store: StoredTable, rows: DataFrame, commit: Commit, snapshot: Commit) -> None:
    """Begin again with these rows, whatever columns the table had. Its versions go on, its changes are gone.

    Killed in between, the table has an older definition's record, or does not fit: it is rebuilt once more.

    Args:
        rows: stored columns, laid out as they are to be written.
        commit: the changelog's record; its version is the next one.
        snapshot: the snapshot's record, of the same version.
    """
    if store.schema.sequenced:
        store.deletes.keep(store.retained.removed, commit.version)
    gone = replace(
        Retained.load(store.root),
        removed=commit.version,
        whole_since=log_versions(store.snapshot.path)[-1] + 1,
        kept=(),
    )
    gone.save(store.root)
    _replace(store, rows, snapshot)
    _create(store.changelog.path, store.schema.logged, None, _OF_CHANGES, commit, mode="overwrite")


def _replace(store: StoredTable, rows: DataFrame, record: Commit) -> None:
    """The snapshot's columns, properties and rows, in one commit."""
    writer = rows.writeTo(f"delta.`{spark_path(store.snapshot.path)}`").using("delta")
    for name, value in _of_rows(store.schema).items():
        writer = writer.tableProperty(name, value)
    if store.schema.partition is not None:
        writer = writer.partitionedBy(rows[store.schema.partition])
    with _recorded(rows.sparkSession, record):
        writer.replace()


def _columns(schema: Schema) -> list[tuple[str, object]]:
    return [(field.name, _type(json.loads(field.to_json())["type"])) for field in schema.fields]


def _type(kind: object) -> object:
    """A Delta type without what it says of NULLs: Spark derives that from a query, DDL does not."""
    if not isinstance(kind, dict):
        return kind
    fields = [(f["name"], _type(f["type"])) for f in kind.get("fields", [])]
    return kind["type"], fields, *(_type(kind.get(part)) for part in ("elementType", "keyType", "valueType"))


def _of_rows(schema: TableSchema) -> dict[str, str]:
    # delta-rs rounds the statistics of decimals to floats: better none than such. Spark takes no partition.
    kinds = {n: kind for n, kind in schema.stored if n != schema.partition}
    exact = [n for n, kind in kinds.items() if not kind.startswith(_INEXACT)]
    return {**_CHECKPOINTS, **({"delta.dataSkippingStatsColumns": ",".join(exact)} if exact else {})}


def _create(
    path: Location,
    columns: tuple[tuple[str, str], ...],
    partition: str | None,
    properties: Mapping[str, str],
    record: Commit,
    *,
    mode: str = "error",
) -> None:
    PERMIT.check()
    DeltaTable.create(
        str(path),
        schema=Schema.from_arrow(arrow_schema(columns)),
        mode=mode,  # type: ignore[arg-type]
        partition_by=[partition] if partition else None,
        configuration=dict(properties),
        storage_options=storage_options(path),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": record.encode()}),
    )
