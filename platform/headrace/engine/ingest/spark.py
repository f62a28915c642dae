"""A stg table's refresh from a large micro-batch, as Spark plans: the initial load, a catch-up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.compaction.compaction import compact, snapshot_commit
from headrace.engine.ingest.first_snapshot import Reads, read_at
from headrace.engine.ingest.images import decode
from headrace.engine.ingest.offsets import parse
from headrace.engine.ingest.refused import unsent
from headrace.engine.refresh.audit import audit
from headrace.engine.refresh.constraints import check_violations, gathered
from headrace.engine.rows.cells import semi_join_frame
from headrace.engine.rows.diff import count_kinds, diff_frame
from headrace.engine.spark.persisted import Persisted
from headrace.engine.spark.query import (
    BROKEN,
    drops_rows,
    quarantined,
    quarantining,
    run,
    with_violations,
)
from headrace.engine.table.table import Delta, StgTable
from headrace.errors import TerminalError
from headrace.results import Accounting
from headrace.sources.columns import unsent_sql
from headrace.sources.stream.dead_letters import DeadLetter, DeadLetters
from headrace.sources.stream.envelope import INCREMENTAL, LAST_READ, TRUNCATE, fault_sql, sequence
from headrace.store.record.commits import Commit
from headrace.store.record.frontier import Offsets, merge_offsets
from headrace.store.schema import DELETE, INSERT, KIND, SEQUENCE, STREAM, UPDATE_AFTER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Loaded:
    """What a large micro-batch did.

    Args:
        loading: it ended within Debezium's snapshot of the table.
    """

    delta: Delta | None
    loading: bool


def ingest_frame(
    spark: SparkSession,
    table: StgTable,
    messages: DataFrame,
    offsets: Offsets,
    dead_letters: DeadLetters,
    *,
    run_id: str,
    batch: int,
) -> Loaded:
    """Apply one large micro-batch to a stg table, in one commit, and compact it.

    Args:
        messages: Kafka records of the table's topic from its frontier on.
    Raises:
        NeedsResync: a value was not sent.
    """
    with table.store.writing, Persisted() as persist:
        events = persist(_decoded(table, messages))  # the one pass over Kafka and its JSON
        return _ingest(spark, table, events, offsets, dead_letters, persist, run_id=run_id, batch=batch)


def _decoded(table: StgTable, messages: DataFrame) -> DataFrame:
    """Envelope, typed image (the row after, or before where it was deleted) and `_fault` of each message."""
    checked = parse(messages, latest=True).selectExpr(
        *[f"{name} AS _e_{name}" for name in _META],
        "value AS _e_value",
        "raw_key AS _e_raw",
        f"{fault_sql()} AS _refused",
        "CASE WHEN op = 'd' THEN before ELSE after END AS _json",
    )
    typed = decode(checked, table.source, "_json")
    columns = list(table.source.names)
    fault = f"coalesce(_refused, CASE WHEN _e_op <> '{TRUNCATE}' THEN _bad END)"
    return typed.selectExpr(
        *[f"_e_{name}" for name in _META],
        f"{fault} AS _fault",
        "_e_value IS NULL AS _tombstone",
        f"CASE WHEN _e_op <> 'd' THEN {unsent_sql(table.source.columns, '_json')} END AS _unsent",
        f"CASE WHEN {fault} IS NOT NULL THEN _e_value END AS _e_value",
        f"CASE WHEN {fault} IS NOT NULL THEN _e_raw END AS _e_raw",
        *[f"`{c}`" for c in columns],
    )


def _ingest(
    spark: SparkSession,
    table: StgTable,
    events: DataFrame,
    offsets: Offsets,
    dead_letters: DeadLetters,
    persist: Persisted,
    *,
    run_id: str,
    batch: int,
) -> Loaded:
    schema, head = table.store.schema, table.store.commit
    summary = _summary(events)
    letters = _letters(table, events) if summary["faults"] else []
    good = events.where(VALID)
    truncated: str | None = None  # every row with an older sequence is gone
    if summary["truncates"]:
        at = summary["truncated_at"]
        truncated, good = sequence(head.generation, at), persist(_before_truncation(good, at))
    live, count = good, summary["valid"]  # those that come after what the table has
    if head.version > 0 and not follows(summary, head):
        sequenced = good.withColumn(SEQUENCE, _sequence_of(head.generation))
        live = persist(_newer(spark, table, sequenced)).drop(SEQUENCE)
        count = live.count()
    several = summary["valid"] > summary["keys"]
    newer = (_last_events(live) if several else live).withColumn(SEQUENCE, _sequence_of(head.generation))
    newer = persist(newer) if several else newer
    keys = newer.count() if live is not good else summary["keys"]
    if summary["unsent"]:
        for row in newer.where("_unsent IS NOT NULL").select("_unsent").limit(1).collect():
            raise unsent(table, row[0])
    columns = list(table.source.names)
    sequences = newer.select(*schema.key, SEQUENCE)
    coming = newer.where("_e_op <> 'd'").select(*columns, SEQUENCE)
    rows = run(spark, table.spec, [coming])
    if SEQUENCE not in rows.columns:  # a query that names its columns: the sequence comes back by key
        rows = rows.join(sequences, list(schema.key))
    loading = summary["reads"] > 0 and not summary["lasts"]
    at_hand: pa.Table | None = None
    cleared = 0
    made = partial(
        next_commit, table, summary, offsets=offsets, run_id=run_id, batch=batch, truncated=truncated
    )
    buries = summary["deletes"] or truncated is not None
    deleted = newer.where("_e_op = 'd'").select(*schema.key, SEQUENCE) if buries else None
    if head.version == 0 and summary["valid"] <= table.limits.rows:
        checked = with_violations(rows, table.spec).toArrow()
        check_violations(checked, table)
        loaded = checked.select(list(schema.stored_names))
        audit(spark, table, loaded)
        counts = Counter({INSERT: loaded.num_rows})
        buried = None if deleted is None else deleted.toArrow()
        left = {"": keys - loaded.num_rows - (0 if buried is None else buried.num_rows)}
        if left[""] and quarantining(table.spec):
            left = _by_rule(count_kinds(left_out(spark, table, coming, rows, None)))
        accounting = account(summary, counts, keys=keys, live=count, left_out=left)
        commit = made(accounting)
        dead_letters.add(letters)
        record = snapshot_commit(table, version=commit.version, compacted=commit.version, run_id=run_id)
        table.store.load(loaded, commit, record, tombstones=buried)
    else:
        old: DataFrame | None = None
        if head.version == 0:
            changes = persist(diff_frame(None, rows, schema))
        else:
            old = table.store.frame(spark)
            upsert = deleted is None and truncated is None and not drops_rows(table.spec)
            if truncated is not None:
                old, sequences, cleared = _truncated(old, sequences, truncated, schema.key)
            elif not upsert:
                old = semi_join_frame(old, schema.key, newer.select(*schema.key), null_safe=False)
            changes = diff_frame(old, rows, schema, upsert=upsert)
            changes = persist(changes if upsert else _sequence_deletes(changes, sequences, schema.key))
            if deleted is not None:
                deleted = deleted.join(changes.select(*schema.key), list(schema.key), "left_anti")
        counts, left = count_changes(spark, table, changes, coming, rows, old)
        audit(spark, table, changes)
        found = gathered(changes, table, sum(counts.values()))
        accounting = account(summary, counts, keys=keys, live=count, truncated=cleared, left_out=left)
        commit = made(accounting)
        dead_letters.add(letters)
        table.store.append_large(found, commit, origin=STREAM, kinds=counts, tombstones=deleted)
        at_hand = found if isinstance(found, pa.Table) else None
        if not loading:  # while more is about to come, the changelog alone will do
            compact(spark, table, run_id=run_id)
    table.run.seen(commit)
    changed = sum(counts.values())
    return Loaded(Delta(table.name, commit.version - 1, commit.version, at_hand, changed), loading=loading)


def count_changes(
    spark: SparkSession,
    table: StgTable,
    changes: DataFrame,
    coming: DataFrame,
    rows: DataFrame,
    held: DataFrame | None,
) -> tuple[Counter[str], dict[str, int]]:
    """Change rows by kind, and what is left out by constraint ("" for none), in one job.

    Args:
        coming, rows, held: as of `left_out`.
    """
    if not drops_rows(table.spec):
        return count_kinds(changes), {}
    out = left_out(spark, table, coming, rows, held)
    counts = count_kinds(changes.select(KIND).unionByName(out))
    left = _by_rule(counts)
    return Counter({kind: n for kind, n in counts.items() if not kind.startswith(_OUT)}), left


def left_out(
    spark: SparkSession, table: StgTable, coming: DataFrame, rows: DataFrame, held: DataFrame | None
) -> DataFrame:
    """One row for each row of the source that stays out of the table, and was not in it before.

    Args:
        coming: rows of the source, one a key.
        rows: those that the table takes of them.
        held: rows that the table has, of these keys at least; None for an empty one.
    Returns:
        `_kind`: `_OUT` and the first QUARANTINE constraint that keeps the row out, if one does.
    """
    from pyspark.sql import functions as F

    key = list(table.store.schema.key)
    out = coming.select(*key).join(rows.select(*key), key, "left_anti")
    if held is not None:
        out = out.join(held.select(*key), key, "left_anti")
    if not quarantining(table.spec):
        return out.select(F.lit(_OUT).alias(KIND))
    aside = quarantined(spark, table.spec, [coming]).select(*key, F.col(BROKEN)[0].alias("_rule"))
    rule = F.coalesce("_rule", F.lit(""))
    return out.join(aside, key, "left").select(F.concat(F.lit(_OUT), rule).alias(KIND))


_OUT = "out:"


def _by_rule(counts: Mapping[str, int]) -> dict[str, int]:
    return {kind.removeprefix(_OUT): n for kind, n in counts.items() if kind.startswith(_OUT)}


def follows(summary: dict[str, int], head: Commit) -> bool:
    """Whether every event is newer than all that was applied, so that no key need be looked up.

    Debezium's snapshot is read at one position: there an equal one means an equal row.
    """
    first = sequence(head.generation, summary["first_lsn"])
    return first > head.high or (first == head.high and summary["reads"] == summary["valid"])


def next_commit(
    table: StgTable,
    summary: dict[str, int],
    accounting: Accounting,
    *,
    offsets: Offsets,
    run_id: str,
    batch: int,
    truncated: str | None = None,
) -> Commit:
    """The record of the batch. Raises TerminalError where events in and out do not balance.

    Args:
        truncated: sequence of its last TRUNCATE.
    """
    if not accounting.balanced():
        raise TerminalError(f"`{table.name}`: events in and out do not balance: {accounting}")
    head = table.store.commit
    return head.next(
        "stream",
        run_id,
        offsets=merge_offsets(head.offsets, offsets),
        template=table.template,
        batch=batch,
        origin=table.run.origin_after(head),
        high=max(head.high, sequence(head.generation, summary["lsn"])),
        snapshot=read_at(table, Reads(summary["read_first"], summary["read_last"])),
        truncated=truncated or head.truncated,
        source_ms=max(head.source_ms, summary["source_ms"]),
        accounting=accounting.model_dump(),
    )


VALID = f"NOT _tombstone AND _fault IS NULL AND _e_op <> '{TRUNCATE}'"
"""Of decoded messages: those of a row."""

READ = f"{VALID} AND _e_op = 'r' AND _e_snapshot IS DISTINCT FROM '{INCREMENTAL}'"
"""Those of a row that a snapshot has read, of which the changes wait for the end."""

_META = ("topic", "partition", "offset", "key", "op", "lsn", "source_ms", "snapshot")
"""Of the envelope; `_e_` stands before them, for columns of the source may have these names."""


def _sequence_of(generation: int) -> Column:
    from pyspark.sql import functions as F

    return F.expr(f"concat('{generation:04X}', lpad(hex(_e_lsn), 16, '0'))")


def _before_truncation(events: DataFrame, lsn: int) -> DataFrame:
    """Events of rows, those before the truncation turned into the deletes that it was for them."""
    from pyspark.sql import functions as F

    before = F.col("_e_lsn") < lsn
    changed = {
        "_e_op": F.when(before, F.lit("d")).otherwise(F.col("_e_op")),
        "_unsent": F.when(~before, F.col("_unsent")),
        "_e_lsn": F.greatest(F.col("_e_lsn"), F.lit(lsn)),
    }
    return events.select(*[changed[c].alias(c) if c in changed else F.col(f"`{c}`") for c in events.columns])


def _truncated(
    held: DataFrame, sequences: DataFrame, truncated: str, key: tuple[str, ...]
) -> tuple[DataFrame, DataFrame, int]:
    """What a batch with a truncation is compared with.

    Args:
        held: all rows of the table.
        sequences: of the batch's events, by key.
        truncated: the sequence of the truncation: what came before it is gone.
    Returns:
        The rows that are gone or that the batch has events of, the sequences with those of rows that are gone
        without an event, and how many rows that are.
    """
    from pyspark.sql import functions as F

    keys = sequences.select(*key)
    gone = held.where(F.col(SEQUENCE) < truncated).join(keys, list(key), "left_anti")
    cleared = gone.select(*key, F.lit(truncated).alias(SEQUENCE))
    about = semi_join_frame(held, key, keys, null_safe=False)
    return about.unionByName(gone), sequences.unionByName(cleared), gone.count()


def _last_events(events: DataFrame) -> DataFrame:
    """The last event of each key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("_e_key").orderBy(F.col("_e_lsn").desc(), F.col("_e_offset").desc())
    return events.withColumn("_n", F.row_number().over(order)).where("_n = 1").drop("_n")


def topic_rows(
    spark: SparkSession,
    table: StgTable,
    messages: DataFrame,
    persist: Persisted,
    loaded: DataFrame | None = None,
    *,
    repeats: bool = True,
    truncations: bool = True,
) -> DataFrame:
    """A stg table's SQL over the last image of every key among `messages`: the table, from its topic.

    Args:
        persist: must last as long as the rows are read.
        loaded: the table's rows before the first of the messages, stored columns.
        repeats: whether messages may tell once more what `loaded` has; to ask costs a join.
        truncations: whether a TRUNCATE may be among them; to ask costs a job.
    """
    columns = list(table.source.names)
    # Unpersisted, Spark would push the tests for faults below the columns that they read, and parse the JSON
    # of a message again for each time that they name one. What nobody reads here is not computed for it.
    read = ("_e_key", "_e_op", "_e_lsn", "_e_offset", "_tombstone", "_fault", *(f"`{c}`" for c in columns))
    events = persist(_decoded(table, messages).select(*read))
    newest = _last_events(events.where(VALID))
    if truncations and (at := _truncated_at(events)) is not None:
        newest, loaded = newest.where(f"_e_lsn > {at}"), None
    if loaded is not None and repeats:  # a connector that was killed sends again what they have in them
        newest = _later(newest, loaded, table)
    rows = run(spark, table.spec, [newest.where("_e_op <> 'd'").select(*columns)])
    rows = rows.select(*table.store.schema.names)
    if loaded is None:
        return rows
    untouched = loaded.join(newest.select(*table.store.schema.key), list(table.store.schema.key), "left_anti")
    return rows.unionByName(untouched.select(*rows.columns))


def _later(newest: DataFrame, held: DataFrame, table: StgTable) -> DataFrame:
    """The events that come after the held rows of their keys."""
    from pyspark.sql import functions as F

    key, generation = list(table.store.schema.key), table.store.commit.generation
    had = held.select(*key, F.col(SEQUENCE).alias("_had"))
    joined = newest.withColumn(SEQUENCE, _sequence_of(generation)).join(had, key, "left")
    return joined.where(f"_had IS NULL OR {SEQUENCE} > _had").drop("_had", SEQUENCE)


def _truncated_at(events: DataFrame) -> int | None:
    """The LSN of the last truncation among decoded messages."""
    found = events.where(f"_e_op = '{TRUNCATE}' AND NOT _tombstone").selectExpr("max(_e_lsn)").collect()
    return found[0][0] if found else None


def _newer(spark: SparkSession, table: StgTable, events: DataFrame) -> DataFrame:
    """Events that come after what the table has for their key, live or deleted."""
    from pyspark.sql import functions as F

    schema = table.store.schema
    if table.store.version == 0:
        return events
    known = table.store.frame(spark).select(*schema.key, F.col(SEQUENCE).alias("_had"))
    deleted = table.store.deletes.frame(spark)
    known = known.unionAll(deleted.select(*schema.key, F.col(SEQUENCE).alias("_had")))
    newest = known.groupBy(*schema.key).agg(F.max("_had").alias("_had"))
    joined = events.join(newest, list(schema.key), "left")
    return joined.where(f"{SEQUENCE} > coalesce(_had, '{table.store.commit.truncated}')").drop("_had")


def _sequence_deletes(changes: DataFrame, sequences: DataFrame, key: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as F

    own = sequences.withColumnRenamed(SEQUENCE, "_of_delete")
    joined = changes.join(own, list(key), "left")
    chosen = F.when(F.col(KIND) == DELETE, F.col("_of_delete")).otherwise(F.col(SEQUENCE))
    return joined.withColumn(SEQUENCE, chosen).select(*changes.columns)


def _letters(table: StgTable, events: DataFrame) -> list[DeadLetter]:
    refused = events.where("_fault IS NOT NULL")
    rows = refused.select("_e_topic", "_e_partition", "_e_offset", "_e_raw", "_e_value", "_fault").collect()
    return [
        DeadLetter(str(table.name), topic, partition, offset, _bytes(key), _bytes(value), reason)
        for topic, partition, offset, key, value, reason in rows
    ]


def _bytes(found: bytearray | None) -> bytes | None:
    return None if found is None else bytes(found)


def _summary(events: DataFrame) -> dict[str, int]:
    row = events.selectExpr(
        "count(*) AS events",
        "count_if(_tombstone) AS tombstones",
        f"count_if(_e_op = '{TRUNCATE}') AS truncates",
        f"coalesce(max(_e_lsn) FILTER (WHERE _e_op = '{TRUNCATE}'), 0) AS truncated_at",
        "count_if(_fault IS NOT NULL) AS faults",
        f"count_if({VALID}) AS valid",
        f"count(DISTINCT CASE WHEN {VALID} THEN _e_key END) AS keys",
        "count(_unsent) AS unsent",
        "count_if(_e_op = 'r') AS reads",
        "count_if(_e_op = 'd' AND _fault IS NULL) AS deletes",
        f"count_if(_e_op <> 'r' OR _e_snapshot IN {LAST_READ}) AS lasts",
        "coalesce(max(_e_lsn) FILTER (WHERE _fault IS NULL), 0) AS lsn",
        f"coalesce(min(_e_lsn) FILTER (WHERE {VALID}), 0) AS first_lsn",
        "coalesce(max(_e_source_ms), 0) AS source_ms",
        f"coalesce(min(_e_lsn) FILTER (WHERE {READ}), 0) AS read_first",
        f"coalesce(max(_e_lsn) FILTER (WHERE {READ}), 0) AS read_last",
    ).collect()[0]
    return {name: int(row[name]) for name in row.asDict()}


def account(
    summary: dict[str, int],
    counts: dict[str, int],
    *,
    keys: int,
    live: int,
    left_out: Mapping[str, int],
    truncated: int = 0,
) -> Accounting:
    """What came of the events.

    Args:
        left_out: keys whose rows stay out of the table, by QUARANTINE constraint; "" for none.
        live: events that come after what the table has; `keys`: whose they are.
        truncated: rows that are gone without an event of theirs.
    """
    changed = counts.get(INSERT, 0) + counts.get(UPDATE_AFTER, 0) + counts.get(DELETE, 0) - truncated
    truncates = summary["truncates"]
    valid = summary["events"] - summary["tombstones"] - summary["faults"] - truncates
    found = Accounting(
        events=summary["events"],
        inserted=counts.get(INSERT, 0),
        updated=counts.get(UPDATE_AFTER, 0),
        deleted=counts.get(DELETE, 0) - truncated,
        folded=live - keys,
        unchanged=keys - changed - sum(left_out.values()),
        duplicate=valid - live,
        tombstones=summary["tombstones"],
        dead_letters=summary["faults"],
        truncates=truncates,
        truncated=truncated,
    )
    found.leave_out(left_out)
    return found
