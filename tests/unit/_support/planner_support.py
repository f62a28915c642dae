"""Layer files written on the spot, and their plans."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.planner import Plan, analyze
from headrace.spec import load_table
from headrace.spec.model import TableSpec

COLUMNS = {
    "dwd.orders": ("order_id", "user_id", "status", "amount", "words", "logdate"),
    "dwd.items": ("order_id", "line", "product_id", "qty", "logdate"),
    "stg.users": ("user_id", "name", "country"),
    "stg.products": ("product_id", "title", "price"),
}
KEYS = {
    "dwd.orders": ("order_id",),
    "dwd.items": ("order_id", "line"),
    "stg.users": ("user_id",),
    "stg.products": ("product_id",),
}


def write_table(
    directory: Path,
    query: str,
    *,
    key: str,
    partition: str | None = "logdate",
    name: str = "dws.result",
    policy: str = "",
    freshness: str = "INTERVAL '10' SECOND",
    options: str = "",
) -> TableSpec:
    """Write `layers/<layer>/<table>.sql` below `directory` and load it."""
    layer, table = name.split(".")
    path = directory / "layers" / layer / f"{table}.sql"
    path.parent.mkdir(parents=True, exist_ok=True)
    formatter = (
        f"'partition.fields.{partition}.date-formatter' = 'yyyyMMddHH'" if partition == "logdate" else ""
    )
    written = ", ".join(filter(None, (options, formatter)))
    lines = [
        f"CREATE MATERIALIZED TABLE {name}" + (f" (PRIMARY KEY ({key}))" if key else ""),
        f"PARTITIONED BY ({partition})" if partition else "",
        f"WITH ({written})" if written else "",
        f"FRESHNESS = {freshness}" if freshness else "",
        f"REFRESH_POLICY = {policy}" if policy else "",
        "AS",
        query,
    ]
    path.write_text("\n".join(line for line in lines if line) + "\n")
    return load_table(path)


def plan(
    spec: TableSpec,
    output: tuple[str, ...],
    *,
    key: tuple[str, ...] | None = None,
    columns: Mapping[str, tuple[str, ...]] = COLUMNS,
    keys: Mapping[str, tuple[str, ...]] = KEYS,
    without: tuple[str, ...] = (),
) -> Plan:
    """The plan of `spec` over upstreams with these columns and keys, strategies of `without` left out."""
    own = spec.primary_key if key is None else key
    upstreams = {u: str(u) for u in spec.upstreams}
    known_columns = {u: columns[name] for u, name in upstreams.items()} | {spec.name: output}
    known_keys = {u: keys[name] for u, name in upstreams.items()} | {spec.name: own}
    return analyze(spec, known_keys, known_columns, excluded=dict.fromkeys(without, "not asked for"))


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())
