"""The JSON images of a small batch as rows: decoded, and through the stg table's own SQL, in one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine.spark.query import BROKEN, VIOLATED, quarantined, quarantining, run, with_violations
from headrace.engine.table.table import StgTable
from headrace.sources.schema import SourceSchema
from headrace.sources.stream.envelope import NetChange
from headrace.store.live.key_joins import tuples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RULE = "_rule"
_TEXTS = (("_image", "bigint"), ("_role", "int"), ("_json", "string"))

_BEFORE, _AFTER, _KEY = 0, 1, 2
"""What an image is for: the row that goes, the row that comes, or only the typed key of a look-up."""


def decode(json_rows: DataFrame, source: SourceSchema, column: str) -> DataFrame:
    """Add the typed columns of the JSON image in `column`, and `_bad`: why it cannot be read, or NULL."""
    from pyspark.sql import functions as F

    fields = ", ".join(f"`{c.name}` {c.json}" for c in source.columns)
    parsed = json_rows.withColumn(
        "_i",
        F.from_json(F.col(column), f"{fields}, _corrupt string", {"columnNameOfCorruptRecord": "_corrupt"}),
    )
    checks = "CASE WHEN _i._corrupt IS NOT NULL THEN 'the image does not match the table' "
    for name in source.key:
        checks += f"WHEN _i.`{name}` IS NULL THEN 'key column `{name}` has no value' "
    decoded = []
    for c in source.columns:
        read = f"_i.`{c.name}`" if c.zero is None else f"nullif(_i.`{c.name}`, '{c.zero}')"
        value = c.decode.replace("{}", read)
        decoded.append(F.expr(value).cast(c.spark).alias(c.name))
        if c.decode != "{}":
            checks += f"WHEN {read} IS NOT NULL AND {value} IS NULL THEN 'column `{c.name}` cannot be read' "
    return parsed.select("*", *decoded, F.expr(checks + "END").alias("_bad")).drop("_i")


@dataclass(frozen=True)
class Images:
    """The images of net changes; image 2i is change i before, 2i+1 after.

    Args:
        keys: typed source key of each image.
        bad: why an image cannot be read; the rows of the others are not to be used then.
        before: table rows of the images that are certain to be the row before.
        after: table rows of the images after, with a column per FAIL constraint.
        aside: of the keys of images after that are in quarantine, the first constraint that they break.
    """

    keys: Mapping[int, tuple[Any, ...]]
    bad: Mapping[int, str]
    before: pa.Table
    after: pa.Table
    aside: Mapping[tuple[Any, ...], str]


def run_images(spark: SparkSession, table: StgTable, nets: Sequence[NetChange]) -> Images:
    """Decode the images and run the table's SQL over those before and those after.

    One query for both: at this size planning and starting a job cost more than its rows.
    """
    keys = [f"_key{i}" for i in range(len(table.source.key))]
    inputs = [(_texts(nets), _TEXTS)]
    found = table.run.queries.run(spark, "images", inputs, partial(_decoded, spark, table))
    side = found.column("_side")
    before, after, about, aside = (found.filter(pc.equal(side, i)) for i in range(4))
    numbers = about.column("_image").to_pylist()
    rows = [n for n in found.column_names if n not in ("_side", "_image", "_bad", _RULE, *keys)]
    return Images(
        dict(zip(numbers, tuples(about, keys), strict=True)),
        {n: r for n, r in zip(numbers, about.column("_bad").to_pylist(), strict=True) if r is not None},
        before.select([n for n in rows if not n.startswith(VIOLATED)]),
        after.select(rows),
        dict(zip(tuples(aside, table.store.schema.key), aside.column(_RULE).to_pylist(), strict=True))
        if aside.num_rows
        else {},
    )


def _decoded(spark: SparkSession, table: StgTable, texts: list[DataFrame]) -> DataFrame:
    """Rows before, rows after, facts about each image and what is in quarantine, told apart by `_side`."""
    from pyspark.sql import functions as F

    names = list(table.source.names)
    decoded = decode(texts[0], table.source, "_json")
    good = decoded.where("_bad IS NULL")
    sides = [
        with_violations(
            run(spark, table.spec, [good.where(F.col("_role") == role).select(*names)]), table.spec
        )
        for role in (_BEFORE, _AFTER)
    ]
    key = table.source.key
    facts = decoded.select("_image", "_bad", *[F.col(c).alias(f"_key{i}") for i, c in enumerate(key)])
    parts = [*sides, facts]
    if quarantining(table.spec):
        coming = good.where(F.col("_role") == _AFTER).select(*names)
        aside = quarantined(spark, table.spec, [coming])
        parts.append(aside.select(*table.store.schema.key, F.col(BROKEN)[0].alias(_RULE)))
    marked = [side.withColumn("_side", F.lit(i)) for i, side in enumerate(parts)]
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), marked)


def _texts(nets: Sequence[NetChange]) -> pa.Table:
    """The images as JSON text.

    A change whose row before must be looked up still needs its typed key: an image before or after has it.
    """
    rows: list[tuple[int, int, str]] = []
    for i, change in enumerate(nets):
        if change.before is not None:
            rows.append((2 * i, _BEFORE, change.before))
        if change.after is not None:
            rows.append((2 * i + 1, _AFTER, change.after))
        if change.before is None and change.after is None:
            first, last = change.events[0], change.events[-1]
            text = first.before or first.after or last.before
            if text is not None:
                rows.append((2 * i, _KEY, text))
    numbers, roles, texts = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "_image": pa.array(numbers, pa.int64()),
            "_role": pa.array(roles, pa.int32()),
            "_json": pa.array(texts, pa.string()),
        }
    )
